# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sessions of a window: they show what a run reports, and however they end, the target is what it was."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.behaviour.harness import Loop, differences, leftovers, run_gilk, wait_for
from tests.programs.build import build, compile_text
from tests.seldom import seldom
from tests.web.served import PATIENCE, Asking, clean, served
from tests.web.spoken import birth_of

REQUESTS = ["dispatch:blocks=count", "ackermann:entry=time"]
LIBC = ctypes.CDLL(None, use_errno=True)
SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17  # ptrace(2)
WALL = 0x40000000  # waitpid(2): also of processes that are no children


@pytest.fixture
def loop() -> Iterator[Loop]:
    with Loop([build("work")]) as found:
        yield found


@pytest.fixture
def asking(loop: Loop, tmp_path: Path) -> Iterator[Asking]:
    with served(tmp_path, "--pid", str(loop.pid)) as window:
        yield Asking(window)


def updates(asking: Asking, number: int) -> Iterator[dict[str, Any]]:
    """The states of a session, whenever they change."""
    state: dict[str, Any] = {}
    with asking.live() as socket:
        socket.send(json.dumps({"token": asking.token, "session": number}))
        while True:
            try:
                news = json.loads(socket.recv(timeout=PATIENCE))
            except ConnectionClosed:
                return
            counts = {**state.get("counts", {}), **news.get("counts", {})}
            state = {**state, **news, "counts": counts}
            yield state
            socket.send("{}")


def test_a_session_counts_and_is_removed(loop: Loop, asking: Asking) -> None:
    target = asking.target(loop.pid)
    begun = asking.post("/session", target=target, requests=REQUESTS)
    assert begun["requests"] == REQUESTS and differences(loop.pid)
    each = asking.get("/costs.json")["each_ns"]
    ended, status = False, asking.get("/status.json")
    assert status["sessions"] == 1
    for state in updates(asking, begun["number"]):
        if not ended and state.get("hits", 0) > 10_000 and state.get("latency"):
            ended = True
            assert wait_for(lambda: asking.get("/status.json")["processor"] > status["processor"])
            assert wait_for(lambda: asking.get("/status.json")["probes"] > status["probes"])
            asking.post("/session/end", session=begun["number"])
    report = state["report"]
    assert report["restored"] is True and clean(loop) and asking.get("/status.json")["sessions"] == 0
    assert {point for point, count in report["counts"].items() if count} <= set(state["counts"])
    cost = state["cost"]
    assert cost["each_ns"] == {name: each[name] for name in ("count", "time")} and cost["unknown"] == 0
    hits = {row["point"]: row["hits"] for row in cost["points"] if row["instrument"] == "count"}
    assert hits == report["counts"] and report["cost"]["ns"] == cost["ns"] > 0
    whole = run_gilk("run", "--json", "-p", str(loop.pid), "--for", "0", *(w for r in REQUESTS for w in ("-i", r)))
    same = json.loads(whole.stdout.splitlines()[-1])
    assert set(state["counts"]) == set(same["counts"]) and report["tactics"] == same["tactics"]
    assert state["command"].endswith(f"-p {loop.pid} -i {REQUESTS[0]} -i {REQUESTS[1]}")
    rows = [row for row in asking.window.audited() if row["what"] in ("begin", "end")]
    assert [row["outcome"] for row in rows] == ["session 1", "True"] and rows[0]["command"] == state["command"]


@pytest.mark.stress
def test_a_preview_agrees_with_the_session(loop: Loop, asking: Asking) -> None:
    target = asking.target(loop.pid)
    planned = asking.post("/preview", target=target, requests=REQUESTS)["points"]
    assert not differences(loop.pid), "nothing was written"
    begun = asking.post("/session", target=target, requests=REQUESTS)
    state = next(state for state in updates(asking, begun["number"]) if state.get("tactics"))
    assert {row["point"]: row["tactic"] for row in planned} == state["tactics"]


@pytest.mark.parametrize(
    "requests",
    seldom([
        ["nothing:entry=count"], ["dispatch:@99:pre=count"], ["x=y"], ["main:entry=@path"], ["kernel:f:entry=count"],
        ["main:entry=a.c:f"],
    ], 2),
)  # fmt: skip
def test_refused_requests_change_nothing(loop: Loop, asking: Asking, requests: list[str]) -> None:
    answer = asking.post("/session", target=asking.target(loop.pid), requests=requests)
    assert answer["error"]["slug"] and not differences(loop.pid)
    assert asking.get("/index.json")["sessions"] == []


def test_only_granted_targets_can_be_reached(loop: Loop, asking: Asking) -> None:
    assert [one["pid"] for one in asking.get("/index.json")["processes"]] == [loop.pid]
    born = birth_of(os.getpid())
    mine = asking.target(loop.pid)
    for target, slug in [(f"pid-{os.getpid()}-{born}", "not-granted"), (mine + "1", "target-changed"),
                         ("kernel", "not-granted"), ("file-L2Jpbi9jYXQ", "not-granted"), ("x", "bad-target"),
                         ("pid-1", "bad-target"), ("file-é", "bad-target")]:  # fmt: skip
        assert asking.post("/preview", target=target, requests=REQUESTS)["error"]["slug"] == slug


@pytest.mark.stress
def test_taking_everything_out_ends_all_sessions(loop: Loop, asking: Asking) -> None:
    target = asking.target(loop.pid)
    for request in REQUESTS:
        assert asking.post("/session", target=target, requests=[request])["number"]
    answer = asking.post("/end")
    assert len(answer["sessions"]) == 2 and all(one["end"] for one in answer["sessions"])
    assert clean(loop)


@pytest.mark.parametrize("number", seldom([signal.SIGKILL, signal.SIGTERM], 1))
def test_a_server_that_ends_leaves_no_probes(loop: Loop, tmp_path: Path, number: int) -> None:
    with served(tmp_path, "--pid", str(loop.pid)) as window:
        asking = Asking(window)
        asking.post("/session", target=asking.target(loop.pid), requests=REQUESTS)
        assert differences(loop.pid)
        window.process.send_signal(number)
        window.process.wait(PATIENCE)
        assert clean(loop) and loop.alive()


def test_a_server_killed_while_a_session_begins_leaves_no_probes(loop: Loop, tmp_path: Path) -> None:
    """The server is killed before the answer, when the child may be anywhere in its work."""
    with served(tmp_path, "--pid", str(loop.pid)) as window:
        asking = Asking(window)
        target = asking.target(loop.pid)
        connection = HTTPConnection("127.0.0.1", window.port, timeout=PATIENCE)
        body = json.dumps({"target": target, "requests": ["*:blocks=count"]})
        connection.request("POST", "/session", body, {"Authorization": f"Bearer {asking.token}"})
        assert wait_for(lambda: bool(leftovers(loop.pid)))
        window.process.kill()
        window.process.wait(PATIENCE)
        connection.close()
        assert clean(loop) and loop.alive()


def test_a_killed_session_process_is_undone_and_shown(loop: Loop, asking: Asking) -> None:
    begun = asking.post("/session", target=asking.target(loop.pid), requests=REQUESTS)
    os.kill(begun["host"], signal.SIGKILL)
    last = list(updates(asking, begun["number"]))[-1]
    assert last["report"] is None and "killed" in last["end"]
    assert clean(loop)
    assert asking.post("/session", target=asking.target(loop.pid), requests=REQUESTS)["number"] == 2


def test_the_end_of_a_target_is_shown(tmp_path: Path) -> None:
    program = subprocess.Popen([build("work"), "loop"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    with program, served(tmp_path, "--pid", str(program.pid)) as window:
        asking = Asking(window)
        begun = asking.post("/session", target=asking.target(program.pid), requests=REQUESTS)
        program.kill()
        last = list(updates(asking, begun["number"]))[-1]
    assert last["end"] == "its target has ended" and "report" in last


EXECUTES = """
#include <stdio.h>
#include <unistd.h>
int work(int n) { return n + 1; }
int main(int count, char **words) {
    int found = 0;
    for (int letter; (letter = getchar()) != EOF;) {
        found += work(letter);
        if (letter == 'x') execv("/proc/self/exe", words);
    }
    return found < count;
}
"""


def test_a_target_that_executes_another_program_is_told_from_one_that_has_ended(tmp_path: Path) -> None:
    """The new program goes on, and is left alone."""
    words = [compile_text(tmp_path, "executes", EXECUTES, "-O0")]
    with (
        subprocess.Popen(words, stdin=subprocess.PIPE, bufsize=0) as program,
        served(tmp_path, "--pid", str(program.pid)) as window,
    ):
        assert program.stdin is not None
        asking = Asking(window)
        begun = asking.post("/session", target=asking.target(program.pid), requests=["work:entry=count"])
        program.stdin.write(b"x")
        last = list(updates(asking, begun["number"]))[-1]
        assert last["end"] == "its target has executed another program, and the probes went with the old one"
        assert "report" in last and last["still"] == [] and program.poll() is None
        assert not leftovers(program.pid) and not differences(program.pid)
        program.stdin.close()


class Stopping:
    """Stops a process, as a debugger or a signal does, and lets it go on."""

    def __init__(self, pid: int, debugger: bool) -> None:
        self._pid, self._debugger = pid, debugger

    @property
    def told(self) -> dict[str, Any]:
        mine = {"tracer": os.getpid(), "name": Path(f"/proc/{os.getpid()}/comm").read_text().strip()}
        return {"pid": self._pid, **(mine if self._debugger else {"tracer": 0, "name": ""})}

    def stop(self) -> None:
        if self._debugger:
            assert LIBC.ptrace(SEIZE, self._pid, None, None) == LIBC.ptrace(INTERRUPT, self._pid, None, None) == 0
            os.waitpid(self._pid, WALL)
        else:
            os.kill(self._pid, signal.SIGSTOP)

    def go_on(self) -> None:
        if self._debugger:
            assert LIBC.ptrace(DETACH, self._pid, None, None) == 0
        else:
            os.kill(self._pid, signal.SIGCONT)


@pytest.mark.parametrize("debugger", [False, True])
def test_a_target_that_stands_still_is_shown_so(loop: Loop, asking: Asking, debugger: bool) -> None:
    stopping = Stopping(loop.pid, debugger)
    begun = asking.post("/session", target=asking.target(loop.pid), requests=REQUESTS)
    states = updates(asking, begun["number"])
    next(state for state in states if state.get("hits", 0) > 0 and state["still"] == [])
    stopping.stop()
    stopped = next(state for state in states if state["still"])
    assert stopped["still"] == [stopping.told]
    again = next(state for state in states if state["seconds"] > stopped["seconds"])
    later = next(state for state in states if state["seconds"] > again["seconds"] + 0.5)
    assert later["still"] and later["hits"] == again["hits"]
    stopping.go_on()
    next(state for state in states if not state["still"] and state["hits"] > again["hits"])
    asking.post("/session/end", session=begun["number"])
    assert list(states)[-1]["still"] == [] and clean(loop)


def test_a_connection_without_the_token_is_closed(loop: Loop, asking: Asking) -> None:
    asking.post("/session", target=asking.target(loop.pid), requests=REQUESTS)
    for first in ('{"token": "x", "session": 1}', "[]", "x", '{"session": 1}', "{" * 2000):
        with asking.live() as socket, pytest.raises(ConnectionClosed) as closed:
            socket.send(first)
            socket.recv(timeout=PATIENCE)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008, first


def test_a_read_only_window_begins_no_sessions(loop: Loop, tmp_path: Path) -> None:
    with served(tmp_path, "--pid", str(loop.pid), "--read-only") as window:
        asking = Asking(window)
        assert asking.get("/index.json")["acts"] is False
        for path in ("/session", "/end", "/survey", "/preview", "/session/end"):
            assert asking.post(path)["error"]["slug"] == "read-only"


PROGRAM = 'pid$target::dispatch:entry { @calls[probefunc] = count(); } tick-100hz /++n == 3/ { printf("ticked"); }'


def test_a_d_program_prints_what_the_command_prints(loop: Loop, asking: Asking) -> None:
    begun = asking.post("/session/d", target=asking.target(loop.pid), text=PROGRAM)
    assert begun["number"] == 1 and begun["printed"] is not None and differences(loop.pid), begun
    ended = False
    for state in updates(asking, 1):
        if not ended and "ticked" in state.get("printed", ""):
            ended = True
            asking.post("/session/end", session=1)
    assert state["report"] == {"restored": True, "status": 0, "notes": []} and clean(loop)
    assert "description 'pid$target::dispatch:entry ' matched 2 probes" in state["printed"]
    name, count = state["printed"].split()[-2:]
    assert name == "dispatch" and int(count) > 0
    assert state["command"] == f"gilk dtrace -p {loop.pid} -n '{PROGRAM}'"


@pytest.mark.parametrize(
    ("text", "slug"),
    [("BEGIN { x", "bad-d-program"),
     pytest.param("pid$target::nothing:entry { }", "no-such-probe", marks=pytest.mark.stress),
     ('BEGIN { system("touch /tmp/no"); }', "destructive-in-window"),
     pytest.param(
         '#pragma D option destructive\nBEGIN { raise(9); }', "destructive-in-window", marks=pytest.mark.stress
     )],
)  # fmt: skip
def test_a_refused_d_program_changes_nothing(loop: Loop, asking: Asking, text: str, slug: str) -> None:
    answer = asking.post("/session/d", target=asking.target(loop.pid), text=text)
    assert answer["error"]["slug"] == slug, answer
    assert not differences(loop.pid) and asking.get("/index.json")["sessions"] == []
