# SPDX-License-Identifier: LGPL-2.1-or-later
"""A window that root begins by sudo: the process that speaks HTTP is the invoking user's, and has no rights of root's;
what the window does is done by programs that its starter, which is root, has started.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from gilk.web.assets import load
from gilk.web.audit import Audit
from gilk.web.grants import Grants, identity_of_file
from gilk.web.keys import Keys
from gilk.web.routes import Window, routes
from tests.behaviour.harness import ENVIRONMENT, Loop, differences, run_gilk, wait_for
from tests.programs.build import build, compile_to
from tests.web.labs import descendants
from tests.web.served import PATIENCE, Asking, Served, clean, key_as, served

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
USER, GROUP = 65534, 65533
REQUEST = "dispatch:entry=count"
#: Says whether a process can be traced: 0, or the error.
TRACES = """
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
int main(int count, char **words)
{
	long done = ptrace(PTRACE_SEIZE, atoi(words[count - 1]), 0, 0);
	printf("%d", done ? errno : 0);
}
"""


@pytest.fixture(autouse=True)
def by_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", str(USER))
    monkeypatch.setenv("SUDO_GID", str(GROUP))


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    """A directory that only root may enter, with an experiment."""
    found = tmp_path / "locked"
    found.mkdir(mode=0o700)
    text = '[workload]\ncommand = "true"\n[[instrument]]\npoints = "libc:exit:entry"\ninstrument = "count"\n'
    (found / "a.toml").write_text(text)
    return found


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def starter_of(window: Served) -> int:
    """The child of the server."""
    (found,) = Path(f"/proc/{window.process.pid}/task/{window.process.pid}/children").read_text().split()
    return int(found)


def over(asking: Asking, number: int) -> Any:
    """A session, once it is over."""
    found: dict[str, Any] = {}
    path = f"/session/{number}.json"
    assert wait_for(lambda: found.update(asking.get(path)) or (found["end"] and "report" in found), PATIENCE)
    return found


def test_the_server_has_no_rights(loop: Loop, tmp_path: Path) -> None:
    with served(tmp_path, "--pid", str(loop.pid)) as window:
        asking = Asking(window)
        assert asking.target(loop.pid)
        lines = status(window.process.pid)
        assert lines["Uid"].split() == [str(USER)] * 4 and lines["Gid"].split() == [str(GROUP)] * 4
        assert lines["Groups"] == "" and lines["NoNewPrivs"] == "1"
        assert {int(lines[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
        assert status(starter_of(window))["Uid"].split() == ["0"] * 4
        for fd in Path(f"/proc/{window.process.pid}/fd").iterdir():
            leads = os.readlink(fd)
            ours = int(fd.name) < 3 or leads.startswith("/dev/")
            assert ours or not leads.startswith("/"), "it has no file of root's open besides the standard streams"


def test_other_processes_of_the_user_cannot_trace_the_server(loop: Loop, tmp_path: Path) -> None:
    with Loop([build("work")]), served(tmp_path, "--pid", str(loop.pid)) as window:
        place = Path("/tmp") / f"gilk-traces-{os.getpid()}"
        place.mkdir(mode=0o755)
        try:
            (place / "traces.c").write_text(TRACES)
            program = compile_to(place / "traces", [place / "traces.c"], ())
            program.chmod(0o755)

            def traces(pid: int) -> str:
                done = subprocess.run([program, str(pid)], user=USER, group=GROUP, extra_groups=[], capture_output=True)
                return done.stdout.decode()

            with subprocess.Popen(["sleep", "1000"], user=USER, group=GROUP, extra_groups=[]) as another:
                try:
                    assert traces(another.pid) == "0", "the control: one of the user's own"
                finally:
                    another.kill()
            assert traces(window.process.pid) == "1"  # EPERM
        finally:
            shutil.rmtree(place)
        words = ["cat", f"/proc/{window.process.pid}/environ"]
        done = subprocess.run(words, user=USER, group=GROUP, extra_groups=[], capture_output=True)
        assert done.returncode != 0 and not done.stdout


def test_the_window_does_what_it_did(loop: Loop, tmp_path: Path, locked: Path) -> None:
    """Its directory is one that only root may enter."""
    places = ("--files", locked, "--experiments", locked, "--traces", locked)
    with served(tmp_path, "--pid", str(loop.pid), *places) as window:
        asking = Asking(window)
        target = asking.target(loop.pid)
        (row,) = asking.get("/index.json")["processes"]
        assert row["names"] == ["work"] and row["user"] == 0
        begun = asking.post("/session", target=target, requests=[REQUEST])
        assert begun["title"] == f"work ({loop.pid})" and differences(loop.pid)
        assert asking.post("/session/end", session=begun["number"])["out"] == {"restored": True} and clean(loop)
        program = asking.post("/session/d", target=target, text='BEGIN { printf("here"); exit(0); }')
        assert "here" in over(asking, program["number"])["printed"], program
        events = {"start": "now", "stop": "for:0.1s", "scope": [], "skip": [], "depth": 1, "all": False}
        trace = asking.post("/session/trace", target=target, **events)
        assert over(asking, trace["number"])["report"]["kept"] and clean(loop)
        (file,) = asking.get("/traces.json")["files"]
        assert asking.get(f"/file/{file['id']}/timeline.json")["tracks"]
        identity = identity_of_file(locked / "a.toml")
        page = asking.get(f"/experiment/{identity}.json")
        saved = asking.post("/experiment/save", file=identity, text=page["text"] + "\n", digest=page["digest"])
        experiment = asking.post("/session/experiment", file=identity, digest=saved["digest"])
        assert "number" in experiment, experiment
        assert over(asking, experiment["number"])["report"]["runs"][0]["restored"] is True
        assert "checks" in asking.get("/doctor.json") and asking.get("/costs.json")["each_ns"]
        assert asking.get("/status.json")["processor"] > 0
        whats = ("begin", "end", "begin", "begin", "save an experiment", "begin")
        assert wait_for(lambda: [row["what"] for row in window.audited()][1:] == list(whats))
        assert {row["uid"] for row in window.audited()} == {0}


def test_every_page_is_answered(loop: Loop, tmp_path: Path, locked: Path) -> None:
    """The server reads nothing late that only root may read: no page fails."""
    window_ = Window(Grants(), Keys(True), Audit(tmp_path / "a"), load())
    with served(tmp_path, "--pid", str(loop.pid), "--files", locked) as window:
        asking = Asking(window)
        target = asking.target(loop.pid)
        headers = {"Authorization": f"Bearer {asking.token}"}
        seen = 0
        for route in routes(window_):
            if isinstance(route, Route) and not route.path.endswith(".arrow"):  # they are no text
                path = route.path.replace("{target}", target).replace("{page:path}", "cli/web")
                for variable in ("{digest}", "{name}", "{number}", "{file}"):
                    path = path.replace(variable, "1")
                for method in (route.methods or set()) - {"HEAD"}:
                    assert window.send(method, path, headers)[0] != 500, (method, path)
                    seen += 1
        assert seen > 80
        assert "gilk web" in asking.get("/help.json?page=cli/web")["text"]
        assert asking.content("/index.arrow").startswith(b"\xff\xff\xff\xff")
        assert b"work" in asking.content("/index.csv")


@contextmanager
def counting(loop: Loop, window: Served) -> Iterator[list[int]]:
    """A session in the loop; yields a pidfd of each process of the window, all of which have ended at the end."""
    asking = Asking(window)
    assert "number" in asking.post("/session", target=asking.target(loop.pid), requests=[REQUEST])
    assert differences(loop.pid)
    ends = [os.pidfd_open(pid) for pid in (window.process.pid, *descendants(window.process.pid))]
    assert len(ends) > 3
    try:
        yield ends
        assert clean(loop) and loop.alive()
        for end in ends:
            assert select.select([end], [], [], PATIENCE)[0]
    finally:
        for end in ends:
            os.close(end)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_server_that_ends_leaves_nothing(loop: Loop, tmp_path: Path, number: int) -> None:
    with served(tmp_path, "--pid", str(loop.pid)) as window, counting(loop, window):
        window.process.send_signal(number)
        assert window.process.wait(PATIENCE) == (0 if number != signal.SIGKILL else -number)


def test_a_window_is_listed_and_stopped(loop: Loop, tmp_path: Path) -> None:
    with served(tmp_path, "--pid", str(loop.pid)) as window, counting(loop, window):
        pid = window.process.pid
        (row,) = (one for one in json.loads(run_gilk("web", "--list", "--json").stdout) if one["pid"] == pid)
        assert row["user"] == USER and row["sessions"] == 1
        done = run_gilk("web", "--stop", pid)
        assert done.returncode == 0, done.stderr
        assert not differences(loop.pid) and window.process.wait(PATIENCE) == 0


def test_only_root_gets_new_keys(tmp_path: Path) -> None:
    """The user who used sudo may list the window, but whoever opens it has rights of root's."""
    with served(tmp_path, "--pid", str(os.getpid())) as window:
        window.token()
        assert key_as(USER, window) == "not-your-window"
        assert key_as(USER - 1, window) == "no-such-window"
        key = key_as(0, window).partition("/#key=")[2]
        assert window.send("POST", "/key", body={"key": key})[0] == 200
        whats = ["a browser was admitted", "a key was made", "a browser was admitted"]
        assert wait_for(lambda: [row["what"] for row in window.audited()] == whats)


def test_the_server_ends_with_the_starter(loop: Loop, tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    words = [sys.executable, "-m", "gilk", "web", "--json", "--audit", audit, "--pid", str(loop.pid)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, env={**os.environ, **ENVIRONMENT}, stdout=pipe, stderr=pipe, text=True
    ) as process:  # fmt: skip
        assert process.stdout is not None
        base, _, key = json.loads(process.stdout.readline())["address"].partition("/#key=")
        window = Served(process, "", int(base.rpartition(":")[2]), key, audit)
        with counting(loop, window):
            os.kill(starter_of(window), signal.SIGKILL)
            said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1 and json.loads(said)["error"]["slug"] == "starter-gone"


def test_a_socket_is_removed_where_only_root_may(loop: Loop, tmp_path: Path, locked: Path) -> None:
    path = locked / "socket"
    words = [sys.executable, "-m", "gilk", "web", "--socket", path, "--audit", tmp_path / "a", "--pid", str(loop.pid)]
    for number in (signal.SIGINT, signal.SIGKILL):
        with subprocess.Popen(words, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline()
            assert path.is_socket()
            process.send_signal(number)
            process.wait(PATIENCE)
            assert wait_for(lambda: not path.exists())


def test_without_sudo_the_server_stays_root(loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID")
    with served(tmp_path, "--pid", str(loop.pid)) as window:
        asking = Asking(window)
        assert asking.target(loop.pid)
        assert status(window.process.pid)["Uid"].split() == ["0"] * 4
