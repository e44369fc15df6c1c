# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kernel of the lab in the window: in a real browser, by mouse and by keyboard alone; counts beside the number of
calls that a program makes, the kernel's own words for its addresses, and its code as a program in the machine reads it.

One machine serves most tests, in their order.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, expect

from gilk.web.grants import identity_of_file
from tests.behaviour.harness import wait_for
from tests.seldom import seldom
from tests.web.labs import FUNCTIONS, GETSID, PATIENCE, calls, ended, lab_of, machines, place_in_core, program, run, up
from tests.web.served import Asking, Served, served
from tests.web.windows import asking, browser, context, narrow, opened, page, reach, ready, suits

__all__ = ["asking", "browser", "calls", "context", "page", "up"]  # fixtures


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("experiments")


@pytest.fixture(scope="module")
def window(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("web"), "--on", "lab", "--experiments", folder, "--traces", folder) as found:
        yield found


def test_the_lab_comes_up_and_a_function_is_found_by_mouse(page: Page, window: Served) -> None:
    """The pages of the kernel show the lab's state until it is up, and then themselves."""
    opened(page, window, "/")
    expect(page.get_by_role("link", name="The kernel of the lab")).to_be_visible()
    suits(page, "an overview with a lab")
    opened(page, window, FUNCTIONS)
    expect(page.get_by_label("Function", exact=True)).to_be_visible(timeout=1000 * PATIENCE)
    page.get_by_label("Function", exact=True).fill("pipe_writ")
    expect(page.locator("td.name")).to_have_text(["pipe_write"])
    page.get_by_role("link", name="pipe_write", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("pipe_write")
    expect(page.locator(".graph g.point.refused").first).to_contain_text("refused: static-call")
    suits(page, "a function of the kernel")
    narrow(page, "a function of the kernel")


def test_functions_and_blocks_are_those_of_the_kernel(up: Asking) -> None:
    """The addresses are those of the lab's own kallsyms; the page has them as text, which no browser rounds."""
    row = up.get("/target/lab/symbols.json?image=kernel&q=pipe_write")["rows"][0]
    found = run(up, [GETSID], "grep ' pipe_write$' /proc/kallsyms; uname -r")
    address, kind, name, release = found["printed"].split()
    assert (int(row["at"], 16), kind, name) == (int(address, 16), "t", row["name"])
    assert release == lab_of(up)["release"]
    shown = up.get(f"/target/lab/function.json?image=kernel&at={row['at']}")
    assert (shown["function"], shown["at"], shown["point"]) == ("pipe_write", row["at"], "kernel:pipe_write")


def test_counts_are_those_of_a_program_that_knows_how_often_it_calls(up: Asking, calls: Path) -> None:
    workload = f"exec {calls} 700"
    found = run(up, [GETSID, "kernel:__x64_sys_getsid:entry=time"], workload)
    assert found["counts"][GETSID.partition("=")[0]] == 700
    assert found["latency"]["__x64_sys_getsid"]["calls"] == 700
    assert (found["printed"], found["end"]) == ("1\n", "its command has ended")
    assert found["report"]["restored"] is True
    words = shlex.split(found["command"])
    assert words[:6] == ["gilk", "run", "--on", "lab", "-i", GETSID] and words[-1] == workload


def test_the_code_is_what_it_was(up: Asking) -> None:
    """A program in the machine reads the function's code before, during and after a session in it; only during one it
    is different, and what a preview has promised is there."""
    shown = up.get("/target/lab/function.json?image=kernel&at=pipe_write")
    place = place_in_core(run(up, [GETSID], "readelf -lW /proc/kcore")["printed"], int(shown["at"], 16))
    reads = f"od -An -v -tx1 -w1 -j {place} -N {shown['size']} /proc/kcore"
    before = run(up, [GETSID], reads)["printed"]
    assert len(before.split()) == shown["size"]
    requests = ["kernel:pipe_write:blocks=count"]
    planned = up.post("/preview", target="lab", requests=requests)["points"]
    during = run(up, requests, reads)
    assert len(during["printed"]) == len(before) and during["printed"] != before
    assert during["report"]["restored"] is True
    assert {row["point"]: row["tactic"] for row in planned if "tactic" in row} == during["tactics"]
    assert {row["point"]: row["refused"] for row in planned if "refused" in row} == during["refused"] != {}
    assert run(up, [GETSID], reads)["printed"] == before


def test_a_session_by_mouse_heats_the_blocks(page: Page, window: Served, up: Asking) -> None:
    opened(page, window, "/target/lab/function?image=kernel&at=pipe_write")
    page.get_by_role("button", name="@1:pre", exact=False).first.click()
    page.get_by_role("button", name="Count every block").click()
    page.get_by_label("Command that runs in the lab").fill("while :; do echo 'a  b' | cat; done")
    page.get_by_role("button", name="Preview the plan").click()
    expect(page.get_by_text("points can be had")).to_be_visible()
    page.get_by_text("As a command").last.click()
    expect(page.locator("#pane pre").first).to_contain_text(
        "gilk run --on lab -i 'kernel:pipe_write:@1:pre=count' -i 'kernel:pipe_write:blocks=count' -- sh -c 'while :;"
    )
    suits(page, "instruments chosen for the kernel")
    narrow(page, "instruments chosen for the kernel")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("heading", name="Counts")).to_be_visible()
    page.get_by_role("link", name="pipe_write", exact=True).click()
    expect(page.locator("g.heat6").first).to_be_attached(timeout=1000 * PATIENCE)
    suits(page, "counted blocks of the kernel")
    page.get_by_role("link", name="Session").click()
    expect(page.get_by_label("Output of the workload")).to_contain_text("a  b", timeout=1000 * PATIENCE)
    pauses(page, up, f"/session/{page.url.rpartition('/')[2]}.json")
    page.get_by_role("button", name="Take out").click()
    expect(page.get_by_text("the code was compared: it is what it was")).to_be_visible()
    suits(page, "a session in the lab that is over")
    narrow(page, "a session in the lab that is over")
    running = run(up, [GETSID], "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c 'whil[e] :;'")
    assert running["printed"] == "0\n", "the command has ended with its session"


def pauses(page: Page, up: Asking, address: str) -> None:
    """Pause the session of a page, which counts nothing then, and let it go on."""
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("no probe fires, until Resume")).to_be_visible(timeout=1000 * PATIENCE)
    then = up.get(address)["seconds"]
    assert wait_for(lambda: up.get(address)["seconds"] > then, PATIENCE)  # a state that is certainly later
    before = up.get(address)
    assert wait_for(lambda: up.get(address)["seconds"] > before["seconds"] + 0.3, PATIENCE)
    assert up.get(address)["counts"] == before["counts"]
    page.get_by_role("button", name="Resume", exact=True).click()
    assert wait_for(lambda: up.get(address)["hits"] > before["hits"], PATIENCE)


def test_a_session_by_keyboard_alone(page: Page, window: Served, up: Asking, calls: Path) -> None:
    opened(page, window, "/target/lab")
    expect(page.get_by_text("It is up: kernel")).to_be_visible()
    suits(page, "a lab that is up")
    narrow(page, "a lab that is up")
    reach(page, page.get_by_role("link", name="Find a function"))
    page.keyboard.press("Enter")
    ready(page)  # only then the page takes the focus
    reach(page, page.get_by_label("Function", exact=True))
    page.keyboard.type("__x64_sys_getsid")
    expect(page.locator("td.name")).to_have_text(["__x64_sys_getsid"])
    reach(page, page.get_by_role("button", name="Time calls of __x64_sys_getsid"))
    page.keyboard.press("Enter")
    reach(page, page.get_by_label("Command that runs in the lab"))
    page.keyboard.press("Control+a")
    page.keyboard.type(f"{calls} 50; cat; echo no input")
    reach(page, page.get_by_role("button", name="Begin"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("Its command has ended.")).to_be_visible(timeout=1000 * PATIENCE)
    expect(page.get_by_text("50 calls")).to_be_visible()
    expect(page.get_by_label("Output of the workload")).to_contain_text("no input")


def test_a_d_program_counts_what_a_program_knows(up: Asking, calls: Path) -> None:
    workload = f"exec {calls} 700"
    text = "syscall::getsid:entry /pid == $target/ { @calls[execname] = count(); }"
    found = program(up, text, workload)
    (calls,) = found["aggregations"]
    assert [(row["keys"], row["values"]) for row in calls["rows"]] == [(["calls"], [700])]
    assert "\n1\n" in found["printed"] and found["report"]["restored"] is True
    words = shlex.split(found["command"])
    assert words[:4] == ["gilk", "dtrace", "--on", "lab"] and words[-1] == text
    assert shlex.split(words[words.index("-c") + 1]) == ["sh", "-c", workload]


@pytest.mark.stress
def test_a_d_program_in_the_kernel_by_keyboard_alone(page: Page, window: Served, up: Asking) -> None:
    """Its stacks are a flame graph, whose frames are those that the kernel has for a process that waits there."""
    waits = "sleep 60 | cat & until grep -q pipe_read /proc/$!/stack; do :; done; cat /proc/$!/stack; pkill sleep"
    stack = run(up, [GETSID], waits)["printed"]
    waiting = re.findall(r"([\w.]+)\+0x", stack)
    assert waiting[0] == "pipe_read" and len(waiting) > 3, stack
    opened(page, window, "/target/lab")
    reach(page, page.get_by_role("link", name="Write a D program"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="D program for the kernel of the lab")).to_be_visible()
    ready(page)
    suits(page, "a D program for the kernel")
    narrow(page, "a D program for the kernel")
    field = page.get_by_label("Program", exact=True)
    reach(page, field)
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    words = page.locator("#words li")
    for typed, word in [("fb", "fbt"), ("::pipe_rea", "pipe_read"), (":en", "entry")]:
        page.keyboard.type(typed)
        expect(words.first).to_contain_text(word)
        page.keyboard.press("Enter")
        expect(page.locator("#words")).to_be_hidden()
    page.keyboard.type(" { @waits[stac")
    expect(words.first).to_contain_text("stackdepth")
    page.keyboard.press("Escape")
    page.keyboard.type("k()] = count(); }")
    expect(page.locator("#problems")).to_contain_text("Nothing is wrong with it. It is about 1 probe.")
    reach(page, page.get_by_label("Command that runs in the lab"))
    page.keyboard.press("Control+a")
    page.keyboard.type("echo it | cat; sleep 100")
    reach(page, page.get_by_role("button", name="Preview"))
    page.keyboard.press("Enter")
    expect(page.get_by_label("Preview")).to_contain_text("1 probe at 1 place in its code: 1 by jump.")
    reach(page, page.get_by_role("button", name="Begin"))
    page.keyboard.press("Enter")
    flames = page.get_by_label("Flame graph of @waits", exact=False).first
    expect(flames.locator("title", has_text="pipe_read:")).to_be_attached(timeout=1000 * PATIENCE)
    suits(page, "a flame graph of the kernel")
    page.get_by_role("button", name="Take out").press("Enter")
    expect(page.get_by_text("the code was compared: it is what it was")).to_be_visible()
    frames = [str(each).partition(":")[0] for each in flames.locator("title").all_text_contents()]
    assert set(waiting) <= set(frames), (waiting, frames)
    narrow(page, "a flame graph of the kernel")


def test_d_programs_of_the_kernel_are_checked_and_completed(up: Asking) -> None:
    """Against the kernel's own lists: of its functions, of its tracepoints, and of a struct's members in BTF."""
    listed = "grep -c '^[0-9a-f]* [tT] pipe_[a-z]*$' /proc/kallsyms; cut -d: -f1 /sys/kernel/tracing/available_events"
    count, *groups = run(up, [GETSID], listed)["printed"].split()
    path = "/target/lab/d"
    asked = lambda text: up.get(f"{path}/words.json?{urlencode({'text': text, 'at': len(text)})}")  # noqa: E731
    offered = lambda text: {word["text"] for word in asked(text)["words"]}  # noqa: E731
    names = {name for name in offered("fbt:vmlinux:pipe_") if re.fullmatch("pipe_[a-z]+", name)}
    assert len(names) == int(count) > 5
    assert offered("rawtp:sch") == {each for each in groups if "sch" in each.lower()}
    assert {"ki_filp", "ki_pos"} <= offered("fbt::pipe_write:entry { trace(args[0]->ki_")
    wrong = up.get(f"{path}/check.json?{urlencode({'text': 'fbt::no_such_thing:entry { }'})}")["problems"]
    assert [each["tag"] for each in wrong] == ["D_PDESC_ZERO"]
    floats = up.get(f"{path}/check.json?{urlencode({'text': 'BEGIN { ustack(); uregs[0] = 1; }'})}")
    assert floats["problems"]
    for text in ("BEGIN { " + "(" * 100_000, "struct s { " * 20_000):
        found = up.post(f"{path}/check.json", text=text, workload="")
        assert found.get("problems") or found["error"]["slug"] in ("d-too-slow", "child-gone"), found
        assert up.post(f"{path}/check.json", text="BEGIN { }", workload="")["probes"] == 1
    assert lab_of(up)["state"] == "up"


@pytest.mark.parametrize(
    ("text", "slug"),
    seldom([
        ("#pragma D option destructive\nfbt::pipe_write:entry { raise(9); }", "destructive-in-window"),
        ("BEGIN { no", "bad-d-program"), ("fbt::no_such_thing:entry { }", "no-such-probe"),
        ("BEGIN { \0 }", "bad-request"),
    ], 1),
)  # fmt: skip
def test_refused_d_programs_change_nothing(up: Asking, text: str, slug: str) -> None:
    answer = up.post("/session/machine/d", text=text, workload="touch /tmp/nothing")
    assert answer["error"]["slug"] == slug, answer
    assert "No such file" in run(up, [GETSID], "ls /tmp/nothing")["printed"]


def press(page: Page, wanted: Locator, by: str) -> None:
    if by == "mouse":
        wanted.click()
        return
    reach(page, wanted)
    page.keyboard.press("Enter")


def type_in(page: Page, field: Locator, text: str, by: str) -> None:
    """Replace what is in a field, and leave it."""
    if by == "mouse":
        field.fill(text)
        field.blur()
        return
    reach(page, field)
    page.keyboard.press("Control+A")
    page.keyboard.type(text)
    page.keyboard.press("Tab")


@pytest.mark.stress
@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_instruments_in_the_kernel_are_staggered(page: Page, window: Served, up: Asking, folder: Path, by: str) -> None:
    """An experiment from the list of chosen instruments to the time line of its samples; each repetition has a machine
    of its own, as on the command line."""
    opened(page, window, f"{FUNCTIONS}&q=__x64_sys_getsid")
    press(page, page.get_by_role("button", name="Count calls of __x64_sys_getsid"), by)
    press(page, page.get_by_role("button", name="Time calls of __x64_sys_getsid"), by)
    type_in(page, page.get_by_label("Function", exact=True), "pipe_write", by)
    press(page, page.get_by_role("button", name="Count calls of pipe_write"), by)
    workload = 'python3 -ISc "import os; [os.getsid(0) for _ in range(700)]"; echo "it\'s" | cat'
    type_in(page, page.get_by_label("Command that runs in the lab"), workload, by)
    press(page, page.get_by_role("button", name="As an experiment"), by)
    expect(page.get_by_role("slider")).to_have_count(6)
    type_in(page, page.get_by_label("Samples to"), f"{by}.parquet", by)
    expect(page.get_by_label("The file", exact=True)).to_have_value(re.compile(f"{by}.parquet"))
    if by == "mouse":
        type_in(
            page, page.get_by_role("spinbutton", name="Start of kernel:pipe_write:entry=count in seconds"), "0.2", by
        )
    else:
        reach(page, page.get_by_role("slider", name="Start of kernel:pipe_write:entry=count"))
        for start in ("0.1", "0.2"):
            page.keyboard.press("ArrowRight")
            expect(page.get_by_label("The file", exact=True)).to_have_value(re.compile(f"start = {start}\n"))
    expect(page.get_by_label("The file", exact=True)).to_have_value(re.compile(f"{by}.parquet(.|\n)*start = 0.2\n"))
    suits(page, "an experiment in the lab")
    narrow(page, "an experiment in the lab")
    press(page, page.get_by_role("button", name="Begin"), by)
    out = page.get_by_text("the code was compared: it is what it was")
    expect(out).to_be_visible(timeout=1000 * PATIENCE)
    (file,) = (each for each in folder.glob("*.toml") if f"{by}.parquet" in each.read_text())
    planned = tomllib.loads(file.read_text())
    assert (planned["machine"], planned["targets"]) == ("lab", ["kernel"])
    assert planned["workload"] == {"command": workload}
    made = ended(up, int(page.url.rpartition("/")[2]))
    assert made["printed"] == "it's\n" and made["command"].endswith(f"gilk experiment run {file.name}")
    (found,) = made["report"]["runs"]
    assert found["counts"]["kernel:__x64_sys_getsid:entry"] == 700
    first, _, last = (one["in"][0] - found["began"] for one in found["instruments"])
    assert first < 0 and last >= 200_000_000, "the one that was staggered went in while the command ran"
    press(page, page.get_by_role("link", name=f"{by}.parquet"), by)
    expect(page.get_by_role("table", name="Functions in view")).to_contain_text("__x64_sys_getsid")
    sql = "select count(*) from calls where function = '__x64_sys_getsid'"
    answer = up.get(f"/file/{identity_of_file(folder / f'{by}.parquet')}/sql.json?{urlencode({'q': sql})}")
    assert answer["rows"] == [[700]]
    assert lab_of(up)["state"] == "up", "it has had a machine of its own"


def test_a_trace_of_the_kernel_has_the_calls_that_a_program_makes(
    page: Page, window: Served, up: Asking, calls: Path, folder: Path
) -> None:
    workload = f"exec {calls} 700"
    opened(page, window, "/target/lab")
    page.get_by_role("link", name="Trace its calls").click()
    page.get_by_label("Begin at").fill("call:pipe_write")
    expect(page.get_by_label("Problems")).to_contain_text("bad-event")
    page.get_by_label("Begin at").fill("now")
    page.get_by_label("End at").fill("exit")
    page.get_by_label("Follow only").fill("__x64_sys_getsid\nksys_write")
    page.get_by_label("Command that runs in the lab").fill(workload)
    words = "gilk trace --on lab --kernel=__x64_sys_getsid --kernel=ksys_write --start now --stop exit -o"
    expect(page.get_by_label("Command line")).to_contain_text(words)
    suits(page, "a trace of the kernel to be begun")
    narrow(page, "a trace of the kernel to be begun")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_text("the code was compared: it is what it was")).to_be_visible(timeout=1000 * PATIENCE)
    assert ended(up, int(page.url.rpartition("/")[2]))["printed"] == "1\n"
    expect(page.get_by_label("Report")).to_contain_text("from now to exit")
    page.get_by_role("link", name="Time line").click()
    expect(page.get_by_role("table", name="Functions in view")).to_contain_text("__x64_sys_getsid700")
    (file,) = folder.glob("lab-*.parquet")
    sql = "select function, count(*) from calls where function like '%getsid' group by function"
    assert up.get(f"/file/{identity_of_file(file)}/sql.json?{urlencode({'q': sql})}")["rows"] == [
        ["__x64_sys_getsid", 700]
    ]
    assert run(up, [GETSID], workload)["counts"] == {"kernel:__x64_sys_getsid:entry": 700}, "the machine stays"


@pytest.mark.parametrize(
    ("wrong", "slug"),
    [({"scope": ["nothing_like_it"]}, "no-such-function"),
     pytest.param({"start": "return:pipe_write"}, "bad-event", marks=pytest.mark.stress),
     ({"stop": "key:alt-f"}, "not-granted"), ({"depth": -1}, "bad-request"), ({"workload": "\0"}, "bad-request"),
     ({"file": "/tmp/x"}, "bad-request")],
)  # fmt: skip
def test_refused_traces_of_the_kernel_leave_no_file(up: Asking, folder: Path, wrong: dict[str, Any], slug: str) -> None:
    before = sorted(folder.iterdir())
    asked = {"start": "now", "stop": "for:1s", "scope": ["pipe_write"], "depth": 0, "workload": "true", **wrong}
    assert up.post("/session/machine/trace", **asked)["error"]["slug"] == slug
    assert sorted(folder.iterdir()) == before


@pytest.mark.stress
def test_the_analysis_says_which_points_can_be_had(page: Page, window: Served, up: Asking) -> None:
    """The figures of a function are those that its graph has."""
    opened(page, window, f"{FUNCTIONS}&q=pipe_write")
    page.get_by_role("button", name="Analyse this image").click()
    expect(page.get_by_text("some points").last).to_be_visible(timeout=1000 * PATIENCE)
    row = up.get("/target/lab/symbols.json?image=kernel&q=pipe_write")["rows"][0]
    blocks = up.get("/target/lab/function.json?image=kernel&at=pipe_write")["blocks"]
    refused = [point for block in blocks for point in block["points"].values() if "refused" in point]
    assert (row["blocks"], row["refused"]) == (len(blocks), len(refused))


@pytest.mark.stress
def test_a_module_that_a_command_loads_is_there_afterwards(up: Asking) -> None:
    """Its function counts the three reads of a file in /sys that it answers."""
    assert run(up, [GETSID], "modprobe dummy numdummies=1 && cat /sys/module/dummy/initstate")["printed"] == "live\n"
    assert "dummy" in {each["name"] for each in up.get("/target/lab.json")["images"]}
    row = up.get("/target/lab/symbols.json?image=dummy&q=dummy_get_stats64")["rows"][0]
    assert up.get(f"/target/lab/function.json?image=dummy&at={row['at']}")["point"] == row["point"]
    reads = "for n in 1 2 3; do cat /sys/class/net/dummy0/statistics/rx_bytes; done"
    found = run(up, [f"{row['point']}:entry=count"], reads)
    assert (found["printed"], found["counts"]) == ("0\n" * 3, {"kernel:dummy_get_stats64:entry": 3})
    assert found["report"]["restored"] is True


def test_strategies_and_times_are_those_of_a_run(up: Asking, calls: Path) -> None:
    """The blocks of a function that every call passes are hit as often as it is called."""
    found = run(up, ["kernel:__x64_sys_getsid=@path:count"], f"exec {calls} 700")
    assert found["counts"]["kernel:__x64_sys_getsid:@0:pre"] == 700 and found["report"]["restored"] is True
    (one,) = found["stages"]["instruments"]
    assert (one["state"], one["points"]) == ("out", len(found["counts"]))
    timed = {"request": GETSID, "start": 0, "stop": 0.2}
    begun = up.post("/session/machine", requests=[timed], workload="")
    over = ended(up, begun["number"])
    assert over["end"] == "all its instruments have come out again" and over["stages"]["instruments"][0]["out"]


def test_one_session_at_a_time(up: Asking) -> None:
    begun = up.post("/session/machine", requests=[GETSID], workload="")
    assert up.post("/session/machine", requests=[GETSID], workload="")["error"]["slug"] == "machine-busy"
    assert up.post("/session/machine/d", text="BEGIN { }", workload="")["error"]["slug"] == "machine-busy"
    assert up.post("/survey", target="lab", image="kernel")["error"]["slug"] == "machine-busy"
    assert up.get("/target/lab/function.json?image=kernel&at=pipe_read")["function"] == "pipe_read", "others look on"
    sessions = {each["number"]: each for each in up.post("/end")["sessions"]}
    over = sessions[begun["number"]]
    assert over["report"]["restored"] is True and over["end"] == "everything was taken out"


@pytest.mark.parametrize(
    ("requests", "slug"),
    seldom([
        (["kernel:nothing_like_it:entry=count"], "no-such-function"), (["main:entry=count"], "remote-kernel-only"),
        (["kernel:pipe_write:@999:pre=count"], "no-such-block"), (["kernel:pipe_write:entry=a.c:f"], "c-not-live"),
        ([], "bad-request"),
    ], 2),
)  # fmt: skip
def test_refused_instruments_change_nothing(up: Asking, requests: list[str], slug: str) -> None:
    answer = up.post("/session/machine", requests=requests, workload="touch /tmp/no")
    assert answer["error"]["slug"] == slug, answer
    assert "No such file" in run(up, [GETSID], "ls /tmp/no")["printed"]


@pytest.mark.stress
def test_a_search_without_end_is_given_up(up: Asking) -> None:
    address = "/target/lab/symbols.json?image=kernel&q="
    assert up.get(f"{address}/^(.*.*.*.*.*)*%23$/")["error"]["slug"] == "search-too-slow"
    assert up.get(f"{address}pipe_write")["found"] == 1


@pytest.mark.stress
def test_a_machine_that_dies_is_shown_and_another_is_started(page: Page, window: Served, up: Asking) -> None:
    """The session in it is over, without a word on code that is there no more; the window goes on."""
    begun = up.post("/session/machine", requests=[GETSID], workload="sleep 1000")
    (machine,) = machines(begun["host"])
    os.kill(machine, signal.SIGKILL)
    last = ended(up, begun["number"])
    assert last["report"] is None or last["report"]["restored"] is None
    assert wait_for(lambda: lab_of(up)["state"] == "over")
    assert lab_of(up)["why"]["slug"] == "lab-qemu"
    assert up.post("/session/machine", requests=[GETSID], workload="")["error"]["slug"] == "machine-is-over"
    opened(page, window, FUNCTIONS)
    expect(page.get_by_role("heading", name="It has ended")).to_be_visible()
    suits(page, "a lab that has ended")
    narrow(page, "a lab that has ended")
    reach(page, page.get_by_role("button", name="Start the lab"))
    page.keyboard.press("Enter")
    expect(page.get_by_label("Function", exact=True)).to_be_visible(timeout=1000 * PATIENCE)
    assert run(up, [GETSID], "true")["report"]["restored"] is True


def test_ending_the_lab_takes_its_session_along(page: Page, window: Served, up: Asking) -> None:
    begun = up.post("/session/machine", requests=[GETSID], workload="sleep 1000")
    (machine,) = machines(begun["host"])
    opened(page, window, "/target/lab")
    page.get_by_role("button", name="End the lab").click()
    expect(page.get_by_text("It has ended.")).to_be_visible()
    over = ended(up, begun["number"])
    assert over["end"] == "the lab was ended" and over["report"]["restored"] is True
    assert not Path(f"/proc/{machine}").exists()
