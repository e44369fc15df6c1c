# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs in which the kernel has threads of its own for io_uring. gilk neither stops, borrows nor samples them,
and their work does not fail."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gilk
from tests.behaviour.harness import differences, leftovers, plain, run, state, wait_for
from tests.programs.build import build

KINDS = ["worker", "sqpoll"]
_FLAGS, _KERNELS = 6, 0x10  # the field of /proc/PID/stat, counted after the name, and PF_IO_WORKER in it


@contextlib.contextmanager
def idle(kind: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program whose threads all sleep; at least one of them is the kernel's. It must end well when its input
    does."""
    words = [str(build("uring")), kind]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        try:
            first = said(program)
            if first.startswith("skipped"):
                pytest.skip(first)
            assert first == "ready"
            assert wait_for(lambda: kernels(program.pid) and state(program.pid) == "S"), (
                "it has a thread of the kernel's"
            )
            yield program
            out, _ = program.communicate(timeout=250)
            assert (out, program.returncode) == (b"ok\n", 0)
        finally:
            program.kill()


def said(program: subprocess.Popen[bytes]) -> str:
    assert program.stdout
    return program.stdout.readline().decode().rstrip("\n")


def poke(program: subprocess.Popen[bytes]) -> None:
    assert program.stdin
    program.stdin.write(b".")
    program.stdin.flush()
    assert said(program) == "got 1"


def kernels(pid: int) -> list[int]:
    """The kernel's threads in the process, found by the flag that the kernel documents, not by gilk."""
    stats = ((task.name, (task / "stat").read_text()) for task in Path(f"/proc/{pid}/task").iterdir())
    return [int(name) for name, text in stats if int(text.rpartition(")")[2].split()[_FLAGS]) & _KERNELS]


@pytest.mark.parametrize("kind", KINDS)
def test_reads_by_io_uring_of_an_idle_program_go_on_when_gilk_attaches(kind: str) -> None:
    """The program's only thread waits in io_uring_enter(2), which fails with EINTR when a tracer stops it."""
    with idle(kind) as program:
        for turn in range(4):
            with gilk.attach(program.pid) as target, target.session() as session:
                session.insert("uring:work:entry", gilk.count)
                for _ in range(turn):
                    poke(program)
                assert session.counts()["uring:work:entry"] == turn
            assert session.restored
        assert (differences(program.pid), leftovers(program.pid)) == ([], [])
        poke(program)


def test_io_uring_threads_of_the_kernel_are_not_sampled() -> None:
    """The thread that looks for requests runs all the time, for a while after each request."""
    with idle("sqpoll") as program, gilk.attach(program.pid) as target:
        for _ in range(20):
            poke(program)
            (kernels_own,) = kernels(program.pid)
            samples = [sample for _ in range(20) for sample in target.process.sample()]
            assert kernels_own not in {sample.tid for sample in samples}


@pytest.mark.parametrize("kind", KINDS)
def test_a_launched_io_uring_program_behaves_the_same_as_alone(kind: str) -> None:
    words = [build("uring"), kind]
    alone = plain(words, b"three")
    if alone.status == 77:
        pytest.skip(alone.stdout.decode())
    ran = run(["uring:work:entry=count"], words, b"three")
    assert ran.visible == alone.visible == (0, b"ready\n" + 5 * b"got 1\n" + b"ok\n", b"")
    assert ran.report["counts"]["uring:work:entry"] == 5
