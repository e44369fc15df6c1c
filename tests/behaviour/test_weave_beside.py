# SPDX-License-Identifier: LGPL-2.1-or-later
"""Weaving into processes that a debugger has, or that have a filter of system calls."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gilk
from gilk.errors import GilkError
from tests.behaviour.advised import aspects, build, rounds
from tests.behaviour.harness import differences, leftovers, wait_for
from tests.behaviour.test_sandboxed import PROGRAM as SANDBOXED
from tests.behaviour.test_sandboxed import may_suspend
from tests.programs.build import compile_text

PROGRAM = """
NOINLINE long work(long n) { __asm__ volatile(""); return n + 1; }
static void one_round(void) { printf("%ld\\n", work(1)); }
"""
FIX = 'call(long work(long n)) then inplace { report("%ld", n); return proceed() + 100; };'


@contextmanager
def debugged(pid: int) -> Iterator[subprocess.Popen[str]]:
    """gdb, attached to the process, which goes on. At the end of the context gdb lets it go."""
    words = [
        "gdb",
        "-q",
        "-nx",
        "-p",
        str(pid),
        "-ex",
        "set pagination off",
        "-ex",
        "continue&",
        "-ex",
        "echo there\\n",
    ]
    gdb = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert gdb.stdin and gdb.stdout
    try:
        while "there" not in (line := gdb.stdout.readline()):
            assert line, "gdb has ended"
        yield gdb
        gdb.stdin.write("interrupt\n")
        gdb.stdin.flush()
        while "SIGINT" not in (line := gdb.stdout.readline()):  # detached before, the process would get the signal
            assert line, "gdb has ended"
        gdb.communicate("detach\nquit\n", timeout=120)
    finally:
        gdb.kill()
        gdb.wait()


def tracer(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().split("TracerPid:")[1].split()[0])


def test_a_process_that_gdb_has_is_woven_once_gdb_lets_it_go(tmp_path: Path) -> None:
    path = aspects(tmp_path, FIX)
    with rounds(build(tmp_path, PROGRAM)) as program:
        with debugged(program.pid), pytest.raises(GilkError) as raised, gilk.attach(program.pid) as target:
            gilk.weave(path, target)
        assert raised.value.slug == "already-traced"
        assert wait_for(lambda: not tracer(program.pid))
        assert program.ask() == "2"
        with gilk.attach(program.pid) as target, gilk.weave(path, target) as woven:
            assert program.ask() == "102"
            assert [one.text for one in woven.reports(final=True)] == ["1"]
        assert (differences(program.pid), leftovers(program.pid), program.ask()) == ([], [], "2")


def test_gdb_stops_in_a_woven_function(tmp_path: Path) -> None:
    """gdb attaches while the aspects are at work; its backtrace is that of the plain program."""
    path = aspects(tmp_path, FIX)
    with rounds(build(tmp_path, PROGRAM)) as program:
        with gilk.attach(program.pid) as target, gilk.weave(path, target):
            words = ["gdb", "-q", "-nx", "-batch", "-p", str(program.pid), "-ex", "bt", "-ex", "detach"]
            said = subprocess.run(words, capture_output=True, text=True, timeout=120)
            assert "main" in said.stdout
            assert program.ask() == "102"
        assert (differences(program.pid), leftovers(program.pid), program.ask()) == ([], [], "2")


@pytest.mark.parametrize("kind", ["kill", "trap", "strict"])
def test_a_process_that_would_die_of_a_hit_is_refused(tmp_path: Path, kind: str) -> None:
    with filtered(tmp_path, kind) as (child, path):
        with gilk.attach(child.pid) as target, pytest.raises(GilkError) as raised:
            gilk.weave(path, target)
        assert raised.value.slug == "seccomp-blocks-hits"
        out, _ = child.communicate(b"." * 13, timeout=120)
        assert (out, child.returncode) == (b"3", 0)


def test_a_process_whose_filter_lets_it_live_is_woven(tmp_path: Path) -> None:
    """The advice makes no system call. While it is there, calls do not count."""
    with filtered(tmp_path, "errno") as (child, path):
        assert child.stdin
        with gilk.attach(child.pid) as target, gilk.weave(path, target) as woven:
            child.stdin.write(b"." * 5)
            child.stdin.flush()
            assert wait_for(lambda: woven.counts()[0].matches == (5,))
            assert [one.text for one in woven.reports(final=True)] == ["0"] * 5
        assert (differences(child.pid), leftovers(child.pid)) == ([], [])
        out, _ = child.communicate(b"." * 13, timeout=120)
        assert (out, child.returncode) == (b"3", 0)


@contextmanager
def filtered(place: Path, kind: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A program under a filter of that kind, and aspects for it."""
    if not may_suspend():
        pytest.skip("takes CAP_SYS_ADMIN, and no filter on the tests themselves")
    program = compile_text(place, "sandboxed", SANDBOXED, "-O2")
    path = aspects(place, 'call(long hot(long x)) then inplace { report("%ld", x); return proceed() - 1; };')
    child = subprocess.Popen([program, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout and child.stdout.readline() == b"ready\n"
        yield child, path
    finally:
        child.kill()
        child.wait()
