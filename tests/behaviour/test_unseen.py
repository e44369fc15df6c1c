# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reports name the programs that a process begins and that are not followed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gilk
from gilk.targets.unseen import Unseen
from tests.behaviour.harness import ENVIRONMENT, children, wait_for

SHELL = "echo ready; read go; { read more; read more; } <&3 & cat <&3 & wait"


def test_an_executed_child_is_reported_as_unseen_and_a_forked_one_is_not() -> None:
    ends = os.pipe()
    words = ["bash", "-c", SHELL.replace("<&3", f"<&{ends[0]}")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=ends[:1]) as shell:
        try:
            look_at(shell)
        finally:
            os.close(ends[1])
            shell.kill()
    os.close(ends[0])


def look_at(shell: subprocess.Popen[bytes]) -> None:
    assert shell.stdin and shell.stdout and shell.stdout.readline() == b"ready\n"
    with gilk.attach(shell.pid) as target, target.session() as session:
        session.insert("libc:malloc:entry", gilk.count)
        moment = iter(range(100))
        unseen = Unseen(shell.pid, now=lambda: float(next(moment)))
        unseen.look()
        assert unseen.remark == ""
        shell.stdin.write(b"go\n")
        shell.stdin.flush()
        assert wait_for(lambda: sorted(map(comm, children(shell.pid))) == ["bash", "cat"])
        unseen.look()
        assert unseen.remark == "at least 1 program that it executes is not seen here (cat)"


def comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@contextmanager
def gone_on(words: list[str], fifo: Path) -> Iterator[list[str]]:
    """Run a client whose program waits for another one, `cat`, which reads the fifo; it ends after it was there for
    some of the client's lines. Yields the lines."""
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "gilk", *words, "-c", f"sh -c 'cat {fifo}; true'"]
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **ENVIRONMENT}) as client:
        assert client.stdout
        kept = os.open(fifo, os.O_WRONLY)  # this waits for the reader
        lines += [client.stdout.readline() for _ in range(10)]
        os.close(kept)
        yield [*lines, *client.stdout]


@pytest.mark.parametrize("words", [
    ["run", "--json", "--every", "50ms", "-i", "libc:malloc:entry=count"],
    pytest.param(
        ["dtrace", "--json", "-n", "pid$target:libc.so.6:malloc:entry { @ = count(); } tick-50ms { trace(1); }"],
        marks=pytest.mark.stress,
    ),
])  # fmt: skip
def test_reports_name_unseen_programs(words: list[str], tmp_path: Path) -> None:
    with gone_on(words, tmp_path / "fifo") as lines:
        told = [json.loads(line) for line in lines if line.startswith("{")]
    notes = told[-1]["notes"] if words[0] == "run" else [one["text"] for one in told if one["type"] == "noted"]
    assert any("program that it executes is not seen here (cat)" in note for note in notes), told
