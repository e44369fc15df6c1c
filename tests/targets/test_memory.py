# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writing to a process whose memory goes meanwhile ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gilk.errors import TargetError
from gilk.targets.keeper import Keeper
from gilk.targets.linux import LinuxProcess
from gilk.targets.maps import read_maps
from gilk.targets.memory import ProcessMemory
from tests.behaviour.harness import mortal, state, wait_for
from tests.programs.build import build


@contextmanager
def _no_longer_than(seconds: int) -> Iterator[None]:
    """Fail, by SIGALRM, if the block takes longer."""

    def late(*_: object) -> None:
        raise AssertionError("it does not come to an end")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_writing_to_memory_that_has_gone_ends() -> None:
    with mortal([build("hot8")]) as program:
        at = read_maps(program.pid)[0].start
        with ProcessMemory(program.pid) as memory:
            program.kill()
            assert wait_for(lambda: not memory.some(at, 1))  # the memory goes when the last thread has ended
            with _no_longer_than(60), pytest.raises(ProcessLookupError):
                memory.write(at, bytes(4))


def test_a_keeper_whose_target_has_gone_closes() -> None:
    """This also holds if the keeper notices it only when it writes something."""
    with mortal([build("hot8")]) as program:
        keeper = Keeper(LinuxProcess(program.pid))
        keeper.mapper.set_up(f"memory-{program.pid}", 1 << 16, 1 << 16)
        keeper.present = lambda: True  # type: ignore[method-assign]
        program.kill()
        assert wait_for(lambda: state(program.pid) == "Z")
        with _no_longer_than(60):
            assert keeper.close()
        with pytest.raises(TargetError):
            keeper.process.threads.stop()
        keeper.memory.close()
