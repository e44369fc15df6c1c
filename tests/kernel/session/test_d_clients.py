# SPDX-License-Identifier: LGPL-2.1-or-later
"""Several D programs in one kernel, of clients that come and go, and are killed: each counts all that it should."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gilk.targets.kernel.channel import RemoteProcess
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import program, ran
from tests.kernel.session.test_session import text_of

pytestmark = pytest.mark.xdist_group("lab")
SECOND = Path(__file__).parent / "guest" / "second.py"
SOURCE = Path(__file__).parents[3] / "src"
FUNCTIONS = ["do_msgsnd", "x64_sys_call"]
TIMES = 100
PATIENCE = 300.0  # seconds for an emulated machine to read its own kernel
PROGRAM = """
    fbt::do_msgsnd:entry, fbt::do_msgsnd:return, syscall::msgrcv:entry, syscall::msgrcv:return
    { @[probefunc, probename] = count(); }
    END { printa("%s %s %@d\\n", @); }"""
ALL = sorted(f"{function} {edge}" for function in ("do_msgsnd", "msgrcv") for edge in ("entry", "return"))


class Second:
    """A client in the machine, which is ready."""

    def __init__(self, guest: Guest, text: str) -> None:
        self.said = bytearray()
        self.errors = bytearray()
        self._guest = guest
        self.process: RemoteProcess = guest.link.spawn(
            [sys.executable, str(SECOND), text], self.said.extend, self.errors.extend,
            environment={**os.environ, "PYTHONPATH": str(SOURCE), "HOME": "/tmp"},
        )  # fmt: skip
        guest.link.channel.until(lambda: b"\n" in self.said or self.process.status is not None, PATIENCE)
        assert self.said.startswith(b"ready\n"), (self.said, self.errors)

    def kill(self) -> None:
        self.process.signal(signal.SIGKILL)
        assert self.process.wait(PATIENCE) == 128 + signal.SIGKILL


@contextmanager
def second(guest: Guest) -> Iterator[Second]:
    one = Second(guest, PROGRAM)
    try:
        yield one
    finally:
        if one.process.status is None:
            one.kill()


def units(guest: Guest) -> int:
    """How many the driver has, of all clients."""
    found = Driver(guest.link).status().units
    guest.link.close_driver()
    return found


def wait_for_none(guest: Guest) -> None:
    """The driver looks once a second after clients that are gone."""
    for _ in range(100):
        if not units(guest):
            return
        guest.vm.run(["sleep", "0.2"])
    raise AssertionError("units are left")


def test_programs_share_probes_and_are_killed_as_they_come(kernel: KernelTarget, guest: Guest, calls: Path) -> None:
    """The one whose splices they are is killed: they stay for the other one, and go with it."""
    before = text_of(kernel, FUNCTIONS)
    with second(guest) as first:
        spliced = text_of(kernel, FUNCTIONS)
        between = ran(kernel, PROGRAM, [str(calls), str(TIMES)])
        assert sorted(between.lines) == [f"{name} {TIMES}" for name in ALL] and not between.errors
        assert between.restored is True  # it has spliced nothing itself
        consumer, _ = program(kernel, PROGRAM)
        assert not consumer.start()
        assert text_of(kernel, FUNCTIONS) == spliced != before
        first.kill()
    assert guest.vm.run([str(calls), str(TIMES)])[0] == 0
    assert text_of(kernel, FUNCTIONS) == spliced
    assert list(consumer.tracing.aggregations.snapshot().values()) == [(TIMES,)] * len(ALL)
    guest.link.close_driver()
    wait_for_none(guest)
    assert text_of(kernel, FUNCTIONS) == before and not guest.complaints()
