# SPDX-License-Identifier: LGPL-2.1-or-later
"""Several D programs in one kernel, whose clients come and go, and are killed: each counts everything that it
should."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

import pytest

from gilk.render.d.messages import Messages
from gilk.render.d.printer import Printer
from gilk.render.d.printf import formatted
from gilk.render.d.style import Style
from gilk.runs.elsewhere import Elsewhere
from gilk.targets.kernel.channel import RemoteProcess
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.link import start_relay
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import program, ran
from tests.kernel.session.ssh import SshIntoGuest
from tests.kernel.session.test_d_programs import shell
from tests.kernel.session.test_session import text_of
from tests.lang.d.sessions import Pages
from tests.seldom import seldom

ABORTIONS = "dmesg | grep -c 'a D program was aborted' || true"
ABORTED = """\
n=0
until [ $(dmesg | grep -c 'a D program was aborted') -gt {before} ]; do
    n=$((n + 1)); [ $n -lt 300 ] || exit 1; sleep 0.2
done"""
pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.stock]
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
    """A second client, which runs in the machine, reads its kernel there, and is ready."""

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

    def apart(self) -> AbstractContextManager[None]:
        return nullcontext()

    def kill(self) -> None:
        self.process.signal(signal.SIGKILL)
        assert self.process.wait(PATIENCE) == 128 + signal.SIGKILL


class ByRelay:
    """A second client whose relay alone is in the machine, and is ready. ``kernel`` is the machine's as the first one
    has read it."""

    def __init__(self, guest: Guest, ssh: SshIntoGuest, kernel: KernelTarget, text: str) -> None:
        self.apart = ssh.alone
        self._guest = guest
        self._link = start_relay([str(ssh.directory / "ssh"), "the-machine"])
        try:
            target = KernelTarget(self._link, shared=True)
            target.__dict__["kernel"] = kernel.kernel
            self._relay = Elsewhere(self._link, lambda: None).relay()
            consumer, _ = program(target, text, destructive="")
            assert not consumer.start()
        except BaseException:
            self._link.close()
            raise

    def kill(self) -> None:
        with self.apart():
            self._guest.run("kill", "-KILL", str(self._relay))
        self._link.close()


@contextmanager
def second(guest: Guest, kernel: KernelTarget, place: Path, in_machine: bool) -> Iterator[Second | ByRelay]:
    """A second client, which is killed at the end at the latest. The machine is asked by others within apart()."""
    with ExitStack() as stack:
        one: Second | ByRelay
        if in_machine:
            one = Second(guest, PROGRAM)
        else:
            one = ByRelay(guest, stack.enter_context(SshIntoGuest(guest, place)), kernel, PROGRAM)
        stack.callback(one.kill)
        yield one


def units(guest: Guest) -> int:
    """The number of units that the driver has, of all clients."""
    found = Driver(guest.link).status().units
    guest.link.close_driver()
    return found


def wait_for_none(guest: Guest) -> None:
    """Wait until the driver has no units. It looks for clients that are gone once a second."""
    for _ in range(500):
        if not units(guest):
            return
        guest.vm.run(["sleep", "0.2"])
    raise AssertionError("units are left")


@pytest.mark.parametrize("in_machine", seldom([False, True], 1), ids=["by-relay", "in-the-machine"])
def test_programs_share_probes_and_their_clients_are_killed_in_turn(
    kernel: KernelTarget, guest: Guest, calls: Path, tmp_path: Path, in_machine: bool
) -> None:
    """The client that made the splices is killed: they stay for the other client, and go with that."""
    before = text_of(kernel, FUNCTIONS)
    with second(guest, kernel, tmp_path, in_machine) as first, first.apart():
        spliced = text_of(kernel, FUNCTIONS)
        between = ran(kernel, PROGRAM, [str(calls), str(TIMES)])
        assert sorted(between.lines) == [f"{name} {TIMES}" for name in ALL] and not between.errors
        assert between.restored is True  # it has made no splices itself
        consumer, _ = program(kernel, PROGRAM, destructive="")  # nobody watches it, and the machine may be slow
        assert not consumer.start()
        assert text_of(kernel, FUNCTIONS) == spliced != before
    assert guest.vm.run([str(calls), str(TIMES)])[0] == 0
    assert text_of(kernel, FUNCTIONS) == spliced
    assert list(consumer.tracing.aggregations.snapshot().values()) == [(TIMES,)] * len(ALL)
    guest.link.close_driver()
    wait_for_none(guest)
    assert text_of(kernel, FUNCTIONS) == before and not guest.complaints()


def test_a_program_whose_client_is_silent_is_aborted(kernel: KernelTarget, guest: Guest, calls: Path) -> None:
    """Its counts until then are reported, and that it was aborted; its probes are taken out as usual."""
    before = text_of(kernel, FUNCTIONS)
    text = PROGRAM + 'BEGIN { printf("begun\\n"); }'
    shell(guest, "echo 3600 > /sys/module/ilk/parameters/deadman")
    try:
        consumer, _ = program(kernel, text)
        assert not consumer.start()
        assert guest.vm.run([str(calls), str(TIMES)])[0] == 0
        aborted = shell(guest, ABORTIONS).strip()
        shell(guest, "echo 2 > /sys/module/ilk/parameters/deadman")
        shell(guest, ABORTED.format(before=aborted))
        assert guest.vm.run([str(calls), str(TIMES)])[0] == 0  # too late
    finally:
        shell(guest, "echo 30 > /sys/module/ilk/parameters/deadman")
    pages, printer = Pages(), Printer(Messages(), Style.of(consumer.options))
    for event in consumer.events(lambda: False, pages, formatted):
        pages.take(printer, event)
    lines = [line for line in bytes(pages.output).decode().splitlines() if line]
    assert sorted(lines) == sorted(["begun", *(f"{name} {TIMES}" for name in ALL)])
    assert "processing aborted: Abort due to systemic unresponsiveness" in pages.errors
    assert (consumer.exit_status, consumer.restored) == (1, True)
    guest.link.close_driver()
    assert text_of(kernel, FUNCTIONS) == before and not guest.complaints()
