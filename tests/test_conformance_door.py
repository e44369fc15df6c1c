# SPDX-License-Identifier: LGPL-2.1-or-later
"""The door between a test in a virtual machine and the dtrace outside, with both of its sides on this machine."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TOOLS = Path(__file__).parent.parent / "tools"
#: The dtrace outside: it has a command run inside, by what stands in the place of ssh, and passes text through it.
OUTSIDE = """\
import os, subprocess, sys
print("arguments", *sys.argv[1:], flush=True)
print("input", sys.stdin.read(), os.environ["SAID"], file=sys.stderr, flush=True)
done = subprocess.run(["ssh", "the-machine", "tr a-z A-Z; echo $INNER"], input=b"through", capture_output=True)
print(done.stdout.decode(), flush=True)
if "wait" in sys.argv:
    import signal
    try:
        print("waits", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        sys.exit(7)
sys.exit(3)
"""
INSIDE = (
    "import sys; sys.argv[0] = ''; import conformance_suite.door_inside as d; d.HOST = '127.0.0.1'; sys.exit(d.main())"
)


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The words that call dtrace from inside, without its arguments."""
    monkeypatch.syspath_prepend(str(TOOLS))
    monkeypatch.setenv("PYTHONPATH", str(TOOLS))
    monkeypatch.setenv("SAID", "here")
    monkeypatch.setenv("INNER", "inner")
    from conformance_suite.door import Door

    (tmp_path / "outside.py").write_text(OUTSIDE)
    door = Door(tmp_path, [sys.executable, str(tmp_path / "outside.py")])
    port, key = (door.inside / "dtrace").read_text().split("door_inside.py ")[1].split()[:2]
    yield [sys.executable, "-c", INSIDE, port, key]
    door.close()


def test_output_status_and_what_runs_inside_pass_through(called: list[str]) -> None:
    done = subprocess.run([*called, "-s", "/dev/stdin"], input="given", capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert done.stdout.splitlines() == ["arguments --on ssh:the-machine -s /dev/stdin", "THROUGHinner", ""]
    assert done.stderr == "input given here\n"


def test_signals_reach_the_command_outside(called: list[str]) -> None:
    with subprocess.Popen([*called, "wait"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "waits" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 7


def test_a_caller_that_does_not_know_the_key_is_turned_away(called: list[str]) -> None:
    with socket.create_connection(("127.0.0.1", int(called[3]))) as connection:
        connection.sendall(b'{"key": "no", "words": [], "directory": "/", "environment": {}, "input": ""}\n')
        assert connection.recv(1) == b""
