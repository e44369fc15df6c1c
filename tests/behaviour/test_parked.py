# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs whose signal handlers switch stacks: most contexts wait in a handler, where no thread is."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gilk
from gilk.targets import ptrace
from gilk.targets.maps import read_maps
from tests.behaviour.harness import Loop, differences, ended, leftovers, wait_for
from tests.programs.build import build
from tests.targets.test_restore import CLIENT, session_in

ENOUGH = 20000
STEPS = 100_000  # instructions within which each patch of a loop is executed


@pytest.mark.parametrize("instrument", ["count", "stamp", "time"])
@pytest.mark.parametrize("variant", ["default", "static"])
def test_contexts_that_wait_in_handlers_go_on(instrument: str, variant: str) -> None:
    """Most of the 24 contexts are amid a patch when it is taken out: it stays until they have left it, and is gone
    afterwards."""
    with Loop([build("green", variant)]) as loop, gilk.attach(loop.pid) as target:
        for _ in range(5):
            with target.session() as session:
                session.insert("green:hot:" + ("entry" if instrument == "time" else "blocks"), instrument)
                if instrument == "count":
                    assert wait_for(lambda session=session: sum(session.counts().values()) > ENOUGH)
                else:  # no record may come, if the first context stops amid its record
                    for _ in range(20):
                        session.poll()
            assert session.restored is True
            assert differences(loop.pid) == []
            assert wait_for(lambda: leftovers(loop.pid) == [])


def test_handlers_see_the_program_while_others_wait(tmp_path: Path) -> None:
    """The note is kept in the context itself, so there may be more of them than threads, blocks or slots."""
    source = tmp_path / "plain.c"
    source.write_text("#include <gilk.h>\nvoid plain(unsigned iid) { (void)iid; for (volatile int i = 0; i < 50; i++); }\n")
    with Loop([build("green")]) as loop, gilk.attach(loop.pid) as target:
        with target.session() as session:
            session.insert("green:hot:blocks", f"{source}:plain")
            session.insert("green:take_turns:entry", "count")
            assert wait_for(lambda: sum(session.counts().values()) > 200)
        assert session.restored is True
        assert differences(loop.pid) == []


@contextmanager
def parked(name: str = "parked") -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([build(name)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        try:
            assert heard(program) == b"ready\n"
            yield program
        finally:
            program.kill()


def heard(program: subprocess.Popen[bytes]) -> bytes:
    assert program.stdout
    return program.stdout.readline()


def tell(program: subprocess.Popen[bytes], letter: bytes) -> None:
    assert program.stdin
    program.stdin.write(letter)
    program.stdin.flush()


def signal_amid_a_patch(pid: int) -> int:
    """Send SIGUSR1 where a patch has stepped over the red zone and has not stepped back yet."""
    code = [range(m.start, m.end) for m in read_maps(pid) if "x" in m.permissions and "memfd:gilk" in m.path]
    ptrace.seize(pid)
    ptrace.call(ptrace.INTERRUPT, pid)
    os.waitpid(pid, ptrace.WALL)
    outside = ptrace.get_registers(pid)
    for _ in range(STEPS):
        ptrace.call(ptrace.SINGLESTEP, pid)
        assert os.WIFSTOPPED(os.waitpid(pid, ptrace.WALL)[1])
        now = ptrace.get_registers(pid)
        if not any(now.rip in each for each in code):
            outside = now
        elif now.rsp < outside.rsp - 128:
            return ptrace.call(ptrace.DETACH, pid, 0, signal.SIGUSR1)
    raise AssertionError("no patch steps over the red zone")


def goes_on(program: subprocess.Popen[bytes]) -> None:
    """Let the first context, which waits, go on: it computes what it should until it is interrupted, and ends."""
    tell(program, b"g")
    os.kill(program.pid, signal.SIGUSR1)
    assert heard(program) == b"parked\n", ended(program)
    tell(program, b"e")
    assert program.wait() == 0


def test_a_context_that_waits_again_amid_a_patch_that_has_gone() -> None:
    """The context goes on in the patch when the session has ended, though its handler was shown the original
    address."""
    with parked() as program, gilk.attach(program.pid) as target:
        with target.session() as session:
            counts = session.insert("parked:work:blocks-post", "count")
            session.insert("parked:ask:entry", "count")
            signal_amid_a_patch(program.pid)
            assert heard(program) == b"parked\n"
            session.remove(counts)
            tell(program, b"s")
            assert heard(program) == b"parked\n"
        assert session.restored is True
        assert differences(program.pid) == []
        goes_on(program)


def test_a_context_that_waits_amid_a_patch_while_an_abandoned_process_is_restored() -> None:
    with parked() as program:
        with session_in(program.pid, CLIENT.replace("hot:blocks", "parked:work:blocks-post")) as keeper:
            signal_amid_a_patch(program.pid)
            assert heard(program) == b"parked\n"
            os.kill(keeper, signal.SIGKILL)
        gilk.restore(program.pid)
        assert differences(program.pid) == []
        goes_on(program)


def test_a_frame_that_is_left_over_amid_a_patch_is_nobody() -> None:
    """One handler was left by a jump, and nobody knows whether its frame will be used again; another has returned."""
    with parked("leftover") as program, gilk.attach(program.pid) as target:
        with target.session() as session:
            session.insert("leftover:work:blocks-post", "count")
            signal_amid_a_patch(program.pid)
            assert heard(program) == b"returns\n"
            tell(program, b"l")
            assert heard(program) == b"leaves\n"
        assert session.restored is True
        assert differences(program.pid) == []
        assert wait_for(lambda: leftovers(program.pid) == [])
        tell(program, b"e")
        assert program.wait() == 0
