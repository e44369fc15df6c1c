# SPDX-License-Identifier: LGPL-2.1-or-later
"""Experiments in a window: written, staggered, run and reported, with the mouse and with the keyboard; the results
are those of the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect

from gilk.web.grants import identity_of_file
from tests.behaviour.harness import Loop, differences, leftovers, wait_for
from tests.seldom import seldom
from tests.web.served import PATIENCE, Asking, Served, served
from tests.web.windows import asking, browser, context, narrow, opened, page, reach, ready, suits

__all__ = ["asking", "browser", "context", "page"]  # fixtures

CANARY = '<img src=x onerror="window.canary=1">'
KEPT = "# kept: what is said about it"
TWO = f"""\
{KEPT}
repetitions = 2
output = "out.parquet"  # {KEPT}

[workload]
command = "echo hello | cat"

[[instrument]]
points = "libc:write:entry"
instrument = "count"
start = 0  # at once

# The way to the end.
[[instrument]]
functions = "libc:exit"
strategy = "path"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("experiments")


@pytest.fixture(scope="module")
def window(loop: Loop, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("web"), "--pid", str(loop.pid), "--experiments", folder) as found:
        yield found


def over(page: Page) -> None:
    expect(page.get_by_role("heading", name="It is over")).to_be_visible(timeout=PATIENCE * 1000)
    expect(page.get_by_text("the code was compared: it is what it was")).to_be_visible()


def told(asking: Asking, page: Page) -> dict[str, object]:
    found: dict[str, object] = asking.get(page.url.partition(str(asking.window.port))[2] + ".json")
    return found


def by_command(folder: Path, name: str) -> dict[str, object]:
    words = [sys.executable, "-m", "gilk", "experiment", "run", name, "--json"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def settled(found: dict[str, object]) -> object:
    """A result without times, and without parts that depend on the addresses of memory."""
    runs = found["runs"]
    assert isinstance(runs, list)
    kept = ("counts", "file", "records", "drops", "restored", "partial", "workload_status", "notes")
    return [
        {**{name: run[name] for name in kept if name in run},
         "instruments": [(one["instrument"], one["target"], one["points"], one["start_s"], one["stop_s"])
                         for one in run["instruments"]]}
        for run in runs
    ]  # fmt: skip


def test_an_experiment_is_written_and_run_by_mouse(page: Page, window: Served, folder: Path, asking: Asking) -> None:
    """A file is made, two instruments are staggered, and it runs as the command line runs it."""
    opened(page, window, "/")
    page.get_by_label("A new one, called").fill("mouse")
    page.get_by_role("button", name="Open", exact=True).click()
    expect(page.get_by_text("This file is not there yet")).to_be_visible()
    page.get_by_label("Workload").fill("sh -c 'for i in 1 2 3 4; do echo $i; sleep 0.5; done'")
    page.get_by_label("Workload").blur()
    expect(page.get_by_label("The file", exact=True)).to_have_value(re.compile("for i in 1 2"))
    page.get_by_label("One more instrument").fill("libc:write=@path")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("slider")).to_have_count(4)
    suits(page, "an experiment")
    narrow(page, "an experiment")
    drag(page, "Start of libc:write=@path", 150)
    drag(page, "Stop of libc:write=@path", -200)
    values = asking.post(f"/experiment/{identity_of_file(folder / 'mouse.toml')}/check.json",
                         text=page.get_by_label("The file", exact=True).input_value())["values"]  # fmt: skip
    late = values["instruments"][1]
    assert late["start"] > 0 and late["start"] < late["stop"] < 10
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("heading", name="When each instrument is in")).to_be_visible()
    assert tomllib.loads((folder / "mouse.toml").read_text())["instrument"][1]["start"] == late["start"]
    over(page)
    suits(page, "an experiment that is over")
    narrow(page, "an experiment that is over")


def drag(page: Page, name: str, by: int) -> None:
    """Drag an end of a bar, and wait until the text has changed."""
    before = page.get_by_label("The file", exact=True).input_value()
    box = page.get_by_role("slider", name=name).bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + by, y, steps=5)
    page.mouse.up()
    expect(page.get_by_label("The file", exact=True)).not_to_have_value(before)


@pytest.mark.stress
def test_an_experiment_is_written_and_run_by_keyboard(page: Page, window: Served, folder: Path, asking: Asking) -> None:
    (folder / "two.toml").write_text(TWO)
    opened(page, window, "/")
    reach(page, page.get_by_role("link", name="two.toml"))
    page.keyboard.press("Enter")
    start = page.get_by_role("slider", name="Start of libc:exit=@path")
    reach(page, start)
    page.keyboard.press("ArrowRight")
    expect(start).to_have_attribute("aria-valuetext", "0.1 s")
    expect(start).to_be_focused()
    page.keyboard.press("Home")
    expect(start).to_have_attribute("aria-valuetext", "0 s")
    reach(page, page.get_by_role("button", name="Leave out libc:exit=@path"))
    assert page.get_by_label("The file", exact=True).input_value() == TWO, "comments are kept"
    reach(page, page.get_by_role("spinbutton", name="Stop of libc:write:entry=count in seconds"))
    page.keyboard.type("30")
    page.keyboard.press("Tab")
    expect(page.get_by_label("The file", exact=True)).to_have_value(
        TWO.replace("start = 0  # at once\n", "start = 0  # at once\nstop = 30\n")
    )
    page.get_by_role("button", name="Begin").focus()
    page.keyboard.press("Enter")
    over(page)
    expect(page.get_by_label("Output of the workload")).to_contain_text("hello")
    state = told(asking, page)
    assert settled(state["report"]) == settled(by_command(folder, "two.toml"))  # type: ignore[arg-type]
    assert (folder / "two.toml").read_text().count(KEPT) == 2
    assert state["command"] == f"cd {folder} && gilk experiment run two.toml"
    assert page.get_by_role("table", name="Instruments", exact=True).locator("tbody tr").count() == 4


@pytest.mark.stress
def test_the_shown_commands_do_the_same_as_the_page(asking: Asking, folder: Path) -> None:
    (folder / "same.toml").write_text(TWO.replace("repetitions = 2\n", ""))
    found = asking.get(f"/experiment/{identity_of_file(folder / 'same.toml')}.json")
    done = subprocess.run([sys.executable, "-c", found["python"]], capture_output=True, text=True, timeout=PATIENCE)
    assert "'libc.so.6:write:entry': 2" in done.stdout, done.stderr
    (folder / "out.parquet").unlink()
    line = found["command"].replace("gilk ", f"{sys.executable} -m gilk ")
    assert subprocess.run(["sh", "-c", line], capture_output=True, timeout=PATIENCE).returncode == 0
    assert (folder / "out.parquet").exists()


def test_errors_are_shown_at_their_place_in_the_text(page: Page, window: Served, folder: Path) -> None:
    (folder / "wrong.toml").write_text(TWO.replace("points", "pionts"))
    opened(page, window, f"/experiment/{identity_of_file(folder / 'wrong.toml')}")
    expect(page.get_by_role("alert")).to_contain_text("line 9, instrument[1].pionts: there is no such key")
    expect(page.get_by_role("alert")).to_contain_text("did you mean points?")
    expect(page.get_by_role("button", name="Begin")).to_be_disabled()
    page.get_by_label("The file", exact=True).fill(TWO)
    expect(page.get_by_role("button", name="Begin")).to_be_enabled()
    expect(page.get_by_text("this one is not saved")).to_be_visible()


def test_a_file_that_another_program_changed_is_not_overwritten(page: Page, window: Served, folder: Path) -> None:
    (folder / "twice.toml").write_text(TWO)
    opened(page, window, f"/experiment/{identity_of_file(folder / 'twice.toml')}")
    (folder / "twice.toml").write_text(TWO + "# by another\n")
    page.get_by_label("The file", exact=True).fill(TWO + "# by me\n")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("file-changed")
    assert (folder / "twice.toml").read_text().endswith("# by another\n")


def test_a_process_is_left_as_it_was(page: Page, window: Served, folder: Path, loop: Loop) -> None:
    """The instrument is in a running process, and `Take out` ends it."""
    text = f'targets = ["pid:{loop.pid}"]\n[[instrument]]\npoints = "dispatch:entry"\ninstrument = "count"\n'
    (folder / "process.toml").write_text(text)
    opened(page, window, f"/experiment/{identity_of_file(folder / 'process.toml')}")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("table", name="Instruments", exact=True)).to_contain_text("dispatch:entry=count")
    assert differences(loop.pid)
    page.get_by_role("button", name="Take out").click()
    over(page)
    expect(page.get_by_role("table", name="Hits of each point")).to_contain_text("dispatch:entry")
    assert not differences(loop.pid)


@pytest.mark.stress
def test_picked_instruments_are_staggered(page: Page, window: Served, folder: Path, loop: Loop, asking: Asking) -> None:
    """The test goes with the mouse from the graph of a function to a time line of the records."""
    opened(page, window, f"/target/{asking.target(loop.pid)}/function?at=dispatch")
    page.get_by_role("button", name="Time calls").click()
    page.get_by_role("button", name="@1:pre", exact=False).first.click()
    page.get_by_role("button", name="As an experiment").click()
    expect(page.get_by_role("slider")).to_have_count(4)
    page.get_by_label("It lasts, s").fill("1")
    page.get_by_label("Samples to").fill("staggered.parquet")
    page.get_by_label("Samples to").blur()
    stop = page.get_by_role("spinbutton", name="Stop of dispatch:@1:pre=count in seconds")
    stop.fill("0.5")
    stop.blur()
    expect(page.get_by_label("The file", exact=True)).to_have_value(re.compile("stop = 0.5\n"))
    expect(page.get_by_label("The file", exact=True)).to_have_value(re.compile("staggered.parquet"))
    page.get_by_role("button", name="Begin").click()
    over(page)
    report = told(asking, page)["report"]
    assert isinstance(report, dict)
    first, second = report["runs"][0]["instruments"]
    assert first["out"] is not None and second["out"][0] < first["out"][0] and not differences(loop.pid)
    page.get_by_role("link", name="staggered.parquet").click()
    expect(page.locator("#line[data-settled=yes]")).to_be_visible()
    expect(page.get_by_role("table", name="Functions in view")).to_contain_text("dispatch")
    assert [path.name for path in folder.glob("experiment-*.toml")] == ["experiment-1.toml"]


def test_a_killed_window_leaves_no_probes_and_no_workload(loop: Loop, folder: Path, tmp_path: Path) -> None:
    """Nothing is left in a process, and no workload goes on."""
    text = f'targets = ["pid:{loop.pid}"]\n[workload]\ncommand = "sleep 1234567"\n'
    file = folder / "killed.toml"
    file.write_text(text + '[[instrument]]\npoints = "dispatch:entry"\ninstrument = "count"\n')
    with served(tmp_path, "--pid", str(loop.pid), "--experiments", folder) as window:
        asking = Asking(window)
        digest = asking.get(f"/experiment/{identity_of_file(file)}.json")["digest"]
        host = asking.post("/session/experiment", file=identity_of_file(file), digest=digest)["host"]
        assert wait_for(lambda: bool(differences(loop.pid)))
        assert wait_for(lambda: bool(workloads_of(host)))  # the instruments are there before the workload is begun
        workload = workloads_of(host)
        window.process.kill()
        window.process.wait(PATIENCE)
    assert wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workload))
    assert wait_for(lambda: not differences(loop.pid) and not leftovers(loop.pid))


def workloads_of(host: int) -> list[int]:
    """The process IDs of the descendants of *host* that run `sleep`."""
    return [pid for pid in children_of(host) if b"sleep" in read_or_nothing(Path(f"/proc/{pid}/cmdline"))]


def read_or_nothing(file: Path) -> bytes:
    """The content of a *file* of /proc; nothing where its process has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return file.read_bytes()
    return b""


def children_of(pid: int) -> list[int]:
    """The process IDs of all descendants of *pid*."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    found = [int(each) for children in tasks for each in read_or_nothing(children).split()]
    return [each for child in found for each in (child, *children_of(child))]


CODE = '[workload]\ncommand = "true"\n[[instrument]]\n'
REFUSED = [
    (CODE + 'points = "main:entry"\ninstrument = "x.c:go"\n', "own-code"),
    (CODE + 'functions = "main"\nstrategy = "x.py:go"\n', "own-code"),
    (CODE + 'points = "kernel:vfs_read:entry"\ninstrument = "count"\n', "not-granted"),
    ('machine = "lab"\ntargets = ["kernel"]\n' + CODE + 'points = "kernel:a:entry"\ninstrument = "count"\n',
     "not-granted"),
    ('machine = "ssh:localhost"\ntargets = ["kernel"]\n' + CODE + 'points = "kernel:a:entry"\ninstrument = "count"\n',
     "not-granted"),
    ('targets = ["pid:1"]\n[[instrument]]\npoints = "main:entry"\ninstrument = "count"\n', "not-granted"),
    ('targets = ["name:python*"]\n[[instrument]]\npoints = "main:entry"\ninstrument = "count"\n', "not-granted"),
    ("a = " + "[" * 20_000, "bad-experiment"),
    ("\n".join(f"[[{'a.' * 40}{n}]]" for n in range(500)), "bad-experiment"),
    ('x = "' + "\\u0000" * 3000 + '"', "bad-experiment"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "slug"), seldom(REFUSED, 4))
def test_experiments_that_cannot_be_run_are_refused(asking: Asking, folder: Path, text: str, slug: str) -> None:
    file = folder / "refused.toml"
    (folder / "x.py").write_text(f"open({str(folder / 'executed')!r}, 'w')\n")
    file.write_text(text)
    digest = asking.get(f"/experiment/{identity_of_file(file)}.json")["digest"]
    found = asking.post("/session/experiment", file=identity_of_file(file), digest=digest)
    assert "error" in found and (not slug or found["error"]["slug"] == slug), found
    assert not (folder / "executed").exists(), "no code of a file is executed when it is looked at"


def test_files_out_of_reach_are_refused(asking: Asking, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "there.toml").write_text(TWO)
    (folder / "link.toml").symlink_to(tmp_path / "there.toml")
    (folder / "sub").mkdir(exist_ok=True)
    for path in (tmp_path / "there.toml", folder / "link.toml", folder / "x.txt", folder / ".." / "a.toml",
                 folder / "sub" / "a.toml"):  # fmt: skip
        assert asking.get(f"/experiment/{identity_of_file(path)}.json")["error"]["slug"] == "not-granted", path
        found = asking.post("/experiment/save", file=identity_of_file(path), text=TWO, digest="")
        assert found["error"]["slug"] == "not-granted" and not path.with_suffix(".txt").exists()
    (folder / "pipe.toml").unlink(missing_ok=True)
    os.mkfifo(folder / "pipe.toml")
    assert asking.get(f"/experiment/{identity_of_file(folder / 'pipe.toml')}.json")["error"]["slug"] == "not-text"
    (folder / "pipe.toml").unlink()
    long = "x" * (65 << 10)
    other = asking.post("/experiment/save", file=identity_of_file(folder / "new.toml"), text=long, digest="")
    assert other["error"]["slug"] == "bad-request"


@pytest.mark.parametrize("times", ["2 1", "1 1", "-1", "inf", "nan", "1e9", "x", "", "1 2 3"])
def test_times_that_cannot_be_are_refused_as_in_a_session(asking: Asking, folder: Path, loop: Loop, times: str) -> None:
    target, new = asking.target(loop.pid), identity_of_file(folder / "unwritten.toml")
    asked = urlencode([("for", target), ("i", "dispatch:entry=count"), ("times", times)])
    assert asking.get(f"/experiment/{new}.json?{asked}")["error"]["slug"] == "bad-request"
    both = [float(word) for word in times.split() if word != "x"]
    if len(both) == 2:
        wanted = {"request": "dispatch:entry=count", "start": both[0], "stop": both[1]}
        assert asking.post("/session", target=target, requests=[wanted])["error"]["slug"] == "bad-request"


def test_hostile_names_are_shown_as_text(page: Page, window: Served, folder: Path) -> None:
    file = folder / f"{CANARY.replace('/', '_')}\u202e.toml"
    text = f"name = '''{CANARY}'''\n[workload]\ncommand = '''echo {CANARY}'''\n"
    text += f"[[instrument]]\nfunctions = '''{CANARY}\u202e\u2066{'y' * 3000}'''\nstrategy = 'path'\n"
    file.write_text(text)
    opened(page, window, "/")
    expect(page.get_by_role("table", name="Experiments")).to_contain_text("\\u202e.toml")
    opened(page, window, f"/experiment/{identity_of_file(file)}")
    expect(page.locator(".bars")).to_contain_text("<img src=x")
    assert page.locator("#main img").count() == 0
    narrow(page, "hostile names")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was put in.")


def test_a_read_only_window_does_not_run_experiments(browser: Browser, folder: Path, tmp_path: Path) -> None:
    (folder / "two.toml").write_text(TWO)
    with served(tmp_path, "--experiments", folder, "--read-only") as window:
        page = browser.new_page()
        page.goto(window.address)
        ready(page)
        opened(page, window, f"/experiment/{identity_of_file(folder / 'two.toml')}")
        expect(page.get_by_role("button", name="Begin")).to_be_disabled()
        expect(page.get_by_role("button", name="Save")).to_be_disabled()
        expect(page.get_by_role("slider")).to_have_count(0)
        page.close()
