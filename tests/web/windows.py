# SPDX-License-Identifier: LGPL-2.1-or-later
"""A real browser, and pages in it that have finished loading.

A module that uses `context` or `page` has a fixture `window`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from tests.render.browser import CHROMIUM, FLAGS
from tests.web.served import Asking, Served

expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None, "no Chromium: tools/setup test installs it"
    with sync_playwright() as playwright:
        flags = [flag for flag in FLAGS if not flag.startswith(("--headless", "--window-size"))]
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield found
        found.close()


def ready(page: Page) -> None:
    expect(page.locator("body[data-ready=yes]")).to_be_attached()


@pytest.fixture(scope="module")
def context(browser: Browser, window: Served) -> Iterator[BrowserContext]:
    """A browser context with the token in its first tab; other tabs ask that one for it."""
    found = browser.new_context(viewport={"width": 1200, "height": 900})
    first = found.new_page()
    first.goto(window.address)
    ready(first)
    yield found
    found.close()


@pytest.fixture(scope="module")
def asking(window: Served, context: BrowserContext) -> Asking:
    """Requests with the token that the browser was given: a window has one key."""
    token = context.pages[0].evaluate("sessionStorage.getItem('gilk-token')")
    return Asking(window, str(token))


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A tab whose console must stay silent, except that a refused request is no fault of the page. Nothing in a
    hostile name may be executed."""
    found = context.new_page()
    said: list[str] = []
    found.on("console", lambda message: said.append(message.text) if "status of" not in message.text else None)
    found.on("pageerror", lambda error: said.append(str(error)))
    yield found
    assert found.evaluate("window.canary === undefined")
    found.close()
    assert not said, said


def opened(page: Page, window: Served, path: str) -> Page:
    page.goto(f"http://127.0.0.1:{window.port}{path}")
    ready(page)
    return page


def suits(page: Page, state: str) -> None:
    """Assert that axe finds no fault. In dark only the colours are other ones, so only they are looked at again."""
    for scheme, rules in (("light", []), ("dark", ["color-contrast"])):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        found = faults(page, rules)
        assert not found, (state, scheme, found)
    page.emulate_media(color_scheme="light")


def faults(page: Page, rules: Sequence[str] = ()) -> list[str]:
    """The violations of these of axe's rules, or of all rules; [] if there are none."""
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(Axe().axe_script)
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found = page.evaluate("options => axe.run(document, options).then(({ violations }) => violations)", options)
    return [f"{one['id']}: {one['help']}: {[each['html'] for each in one['nodes']]}" for one in found]


def narrow(page: Page, state: str) -> None:
    """Assert that at 360 px only tables, graphs and code are wider than the page."""
    page.set_viewport_size({"width": 360, "height": 740})
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    page.set_viewport_size({"width": 1200, "height": 900})
    assert wide <= 0, (state, wide)


def reach(page: Page, wanted: Locator) -> None:
    """Press Tab until that element has the focus."""
    expect(wanted).to_be_visible()
    for _ in range(300):
        if wanted.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{wanted} cannot be reached")
