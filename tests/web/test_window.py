# SPDX-License-Identifier: LGPL-2.1-or-later
"""The window in a real browser: a session with the mouse and one with the keyboard, hostile names, and accessibility.

Every page must load without a message on the console. Tests wait for the elements that they check.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, Route, expect

from tests.behaviour.harness import Loop, differences, leftovers, wait_for
from tests.web.served import Asking, Served, served
from tests.web.windows import asking, browser, context, narrow, opened, page, ready, suits

__all__ = ["asking", "browser", "context", "page"]  # fixtures


CANARY = '<img src=x onerror="window.canary=1">'
STRANGE = ["</style><script>window.canary=1</script>", "a\u202egnp.exe", "x\x01\x7f\x1b[2J", "y" * 3000]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a program whose functions have hostile names."""
    place = tmp_path_factory.mktemp("strange")
    names = [CANARY, *STRANGE]
    marks = [f"q{n:02}".ljust(len(name.encode()), "z") for n, name in enumerate(names)]
    functions = "".join(
        f".globl {mark}\n.type {mark},@function\n{mark}: mov %edi,%eax\ninc %eax\nret\n.size {mark},.-{mark}\n"
        for mark in marks
    )
    main = f".globl main\n.type main,@function\nmain: call {marks[0]}\nret\n.size main,.-main\n"
    (place / "x.s").write_text(f"{main}{functions}.section .note.GNU-stack\n")
    subprocess.run(["cc", "-o", place / "x", place / "x.s"], check=True)
    code = (place / "x").read_bytes()
    for mark, name in zip(marks, names, strict=True):
        code = code.replace(mark.encode(), name.encode())
    (place / "x").write_bytes(code)
    return place


@pytest.fixture(scope="module")
def window(loop: Loop, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("web"), "--pid", str(loop.pid), "--files", folder) as found:
        yield found


def functions(page: Page, window: Served, name: str) -> None:
    """Open the page of the functions of a process or a file, by its link on the overview."""
    opened(page, window, "/")
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.locator("td.name").first).to_be_visible()


def clean(loop: Loop) -> bool:
    return wait_for(lambda: not leftovers(loop.pid) and not differences(loop.pid))


def test_a_session_is_run_by_mouse(page: Page, window: Served, loop: Loop, asking: Asking) -> None:
    functions(page, window, "work")
    page.get_by_label("Function", exact=True).fill("dispat")
    expect(page.locator("td.name")).to_have_count(1)
    assert "q=dispat" in page.url
    page.get_by_role("link", name="dispatch", exact=True).click()
    page.get_by_role("button", name="@0:pre", exact=False).first.click()
    page.get_by_role("button", name="Count every block").click()
    page.get_by_role("button", name="Preview the plan").click()
    expect(page.get_by_text("points can be had")).to_be_visible()
    page.get_by_text("As a command").last.click()
    expect(page.locator("#pane pre").first).to_have_text(
        f"gilk run -p {loop.pid} -i 'dispatch:@0:pre=count' -i 'dispatch:blocks=count'"
    )
    assert not differences(loop.pid), "nothing is written before it begins"
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("heading", name="Counts")).to_be_visible()
    assert differences(loop.pid)
    page.go_back()
    expect(page.locator("g.heat6").first).to_be_attached()
    suits(page, "counted blocks")
    page.go_forward()
    pause, facts = page.get_by_role("button", name="Pause the view"), page.locator("dl.facts")
    pause.click()
    expect(pause).to_have_attribute("aria-pressed", "true")
    shown, address = facts.inner_text(), f"/session/{page.url.rpartition('/')[2]}.json"
    then = asking.get(address)["seconds"]
    assert wait_for(lambda: asking.get(address)["seconds"] > then + 1)
    assert facts.inner_text() == shown
    pause.click()
    expect(facts).not_to_have_text(shown, use_inner_text=True)
    page.get_by_role("button", name="Take out").click()
    expect(page.get_by_text("the code was compared: it is what it was")).to_be_visible()
    suits(page, "a session that is over")
    assert clean(loop)


def test_a_session_is_run_by_keyboard(page: Page, window: Served, loop: Loop) -> None:
    functions(page, window, "work")

    def reach(name: str, role: str = "button") -> None:
        """Press Tab until that element has the focus."""
        wanted = page.get_by_role(role, name=name).first  # type: ignore[arg-type]
        expect(wanted).to_be_visible()
        for _ in range(200):
            page.keyboard.press("Tab")
            if wanted.evaluate("element => element === document.activeElement"):
                return
        raise AssertionError(f"{name} cannot be reached")

    reach("Function", "searchbox")
    page.keyboard.type("ackermann")
    expect(page.locator("td.name")).to_have_count(1)
    reach("Time calls of ackermann")
    page.keyboard.press("Enter")
    reach("Begin")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Times of calls")).to_be_visible()
    reach("Everything out")
    page.keyboard.press("Enter")
    expect(page.get_by_text("the code is what it was")).to_be_visible()
    assert clean(loop)


def test_a_new_page_gets_the_focus_for_readers_who_use_the_keyboard(page: Page, window: Served) -> None:
    opened(page, window, "/")
    page.get_by_role("link", name="Doctor").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def test_a_new_page_leaves_the_focus_with_one_who_types_already(page: Page, window: Served) -> None:
    """The answer about the functions is held back until a letter has been typed into the field."""
    opened(page, window, "/")
    held: list[Route] = []
    free: list[bool] = []
    page.route("**/symbols.json*", lambda route: route.continue_() if free else held.append(route))
    page.get_by_role("link", name="work", exact=True).click()
    field = page.get_by_label("Function", exact=True)
    field.press_sequentially("dis")
    free.append(True)
    for each in held:
        with suppress(Error):  # the page has given up a request, for it has made a later one
            each.continue_()
    ready(page)
    expect(page.locator("td.name").first).to_be_visible()
    expect(field).to_be_focused()
    page.keyboard.type("patch")
    expect(field).to_have_value("dispatch")


def test_a_d_programs_output_is_shown(page: Page, window: Served, loop: Loop) -> None:
    functions(page, window, "work")
    page.get_by_role("link", name="a D program for it").click()
    page.get_by_label("Program", exact=True).fill("pid$target::dispatch:entry { x")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was put in.")
    page.get_by_label("Program", exact=True).fill('pid$target::dispatch:entry /++n == 5/ { printf("<b>%d", n); }')
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_label("Output of the program")).to_contain_text("<b>5")
    suits(page, "a D program")
    page.get_by_role("button", name="Take out").click()
    expect(page.get_by_text("the code was compared: it is what it was")).to_be_visible()
    assert clean(loop)


def test_hostile_names_are_shown_as_text(page: Page, window: Served, folder: Path) -> None:
    functions(page, window, str(folder / "x"))
    page.get_by_label("Function", exact=True).fill("onerror")
    expect(page.locator("td.name")).to_have_text([CANARY])
    page.get_by_label("Function", exact=True).fill("gnp")
    expect(page.locator("td.name")).to_have_text(["a\\u202egnp.exe"])
    page.get_by_label("Function", exact=True).fill("main")
    expect(page.locator("td.name")).to_have_count(1)
    page.get_by_role("link", name="main", exact=True).click()
    expect(page.locator(".graph")).to_contain_text(CANARY)
    assert page.evaluate("window.canary === undefined")


def test_an_endless_search_is_given_up(context: BrowserContext, window: Served, folder: Path) -> None:
    page = context.new_page()
    functions(page, window, str(folder / "x"))
    page.get_by_label("Function", exact=True).fill("/^(y+)+z/")
    expect(page.get_by_role("alert")).to_contain_text("search-too-slow")
    page.get_by_label("Function", exact=True).fill("main")
    expect(page.locator("td.name")).to_have_text(["main"])
    page.close()


APPEND = """name => import(document.querySelector("script").src.replace("main.js", "dom.js"))
    .then(({ h }) => document.body.append(h("p", null, name))).then(() => "done", String)"""


@pytest.mark.parametrize("policy", [True, False])
def test_negative_control_hostile_markup_is_detected(context: BrowserContext, window: Served, policy: bool) -> None:
    """Control: if text were turned into markup, the name would be executed, and the policy alone would prevent that."""
    page = context.new_page()
    text = "element.append(child instanceof Node"

    def answer(route: Route) -> None:
        found = route.fetch()
        body = found.text().replace(text, f"element.innerHTML = child; {text}")
        headers = {name: value for name, value in found.headers.items() if policy or name != "content-security-policy"}
        route.fulfill(response=found, body=body, headers=headers)

    page.route("**/assets/*/dom.js", answer)
    page.route(f"http://127.0.0.1:{window.port}/about", answer)
    page.goto(f"http://127.0.0.1:{window.port}/about")
    done = page.evaluate(APPEND, CANARY)
    if policy:
        assert "TrustedHTML" in done and page.evaluate("window.canary === undefined")
    else:
        page.wait_for_function("window.canary === 1")
    page.close()


PAGES = [
    "/",
    "/about",
    "/traces",
    "/help",
    "/help/cli/run",
    "/target/ID",
    "/target/ID/symbols",
    "/target/ID/function?at=dispatch",
    "/target/ID/d",
]


def test_pages_are_accessible(page: Page, window: Served, loop: Loop) -> None:
    """axe finds no fault, in light and dark; at 360 px only tables, graphs and code are wider than the page."""
    opened(page, window, "/")
    target = page.get_by_role("link", name="work", exact=True).get_attribute("href").split("/")[2]  # type: ignore[union-attr]
    for path in PAGES:
        opened(page, window, path.replace("ID", target))
        assert page.locator("h1").count() == 1, path
        suits(page, path)
        narrow(page, path)


def test_a_page_shows_the_content_of_its_json(page: Page, window: Served, loop: Loop) -> None:
    with page.expect_response("**/symbols.json*") as answered:
        functions(page, window, "work")
    rows = answered.value.json()["rows"]
    assert [row["shown"] for row in rows] == page.locator("td.name").all_text_contents()
    with page.expect_response("**/function.json*") as graph:
        page.get_by_role("link", name="dispatch", exact=True).click()
    blocks = graph.value.json()["blocks"]
    expect(page.locator(".graph .block")).to_have_count(len(blocks))
    strips = page.locator(".graph .point").all_text_contents()
    assert strips == [
        f"@{block['index']}:{side}  {block['points'][side].get('tactic')}"
        for block in blocks
        for side in ("pre", "post")
    ]


def test_without_a_key_the_page_explains_what_to_do(browser: Browser, window: Served) -> None:
    page = browser.new_page()
    opened(page, window, "/")
    expect(page.get_by_role("alert")).to_contain_text("needs a key")
    page.goto(window.address)
    ready(page)
    page.close()
