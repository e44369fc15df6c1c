# SPDX-License-Identifier: LGPL-2.1-or-later
"""Other machines: the kernel of one, and a command that runs there, in a virtual machine of the lab or over ssh."""

from __future__ import annotations

import errno
import os
import shlex
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from gilk.errors import TargetError, UsageError
from gilk.lab import Machine, boot
from gilk.targets.kernel import driver_build, driver_load
from gilk.targets.kernel.channel import RemoteProcess, Sink
from gilk.targets.kernel.driver_errors import cannot_open
from gilk.targets.kernel.link import RelayLink, start_relay
from gilk.targets.kernel.own import DRIVER, HERE, is_loaded

_DEBUGFS = "/sys/kernel/debug"
_TELLING = 60.0  # seconds that a short command may take
_DYING = 30.0  # seconds that a command which was killed may take to end
_INTERRUPTS = "irqaffinity=0"  # interrupts of devices: the relay goes on when another processor hangs


class Elsewhere:
    """Another machine. ``link`` reaches it. ``close()`` lets it go; a virtual machine of the lab ends then.

    ``console`` returns what its kernel has printed; '' if that is not known.
    """

    def __init__(self, link: RelayLink, close: Callable[[], None], console: Callable[[], str] = lambda: "") -> None:
        self.link = link
        self.close = close
        self.console = console
        self._command: RemoteProcess | None = None

    def load(self, modules: Iterable[Path]) -> None:
        """Load kernel modules, given as files on that machine. Raises TargetError `module-refused`, after letting the
        machine go."""
        for module in modules:
            status, _, said = self.link.run(["insmod", str(module.resolve())])
            if status:
                self.close()
                why = said.decode(errors="replace").strip()
                raise TargetError("module-refused", f"the kernel there refuses {module}: {why}", "its dmesg says more")

    def relay(self) -> int:
        """The pid of gilk's own process there, the relay, which sends records here; 0 if that is not known.

        Raises TargetError `command-timeout`, MachineGone.
        """
        try:
            _, said, _ = self.link.run(["sh", "-c", "echo $PPID"], timeout=_TELLING)
        except OSError:
            return 0
        return int(said) if said.strip().isdigit() and len(said) < 12 else 0

    def start(self, command: Sequence[str], take: Sink | None = None) -> None:
        """Run a command there, without input and with its output on ours, or given to ``take``. Raises TargetError
        `cannot-launch`."""
        try:
            out, err = take or partial(write_all, 1), take or partial(write_all, 2)
            self._command = self.link.spawn(
                command, out, err, directory=os.getcwd(), environment=dict(os.environ)
            )  # fmt: skip
        except OSError as error:
            raise TargetError("cannot-launch", f"cannot run {command[0]} there: {error.strerror}") from None
        self._command.end_input()

    def kill(self) -> None:
        """Kill the command with its group, if it still runs, and wait for its end, for a while. Raises MachineGone."""
        if self._command is not None and self.status is None:
            self._command.signal(signal.SIGKILL)
            self._command.wait(_DYING)

    def watch(self, others: Sequence[int]) -> None:
        """Wait until one of these descriptors can be read, and meanwhile notice if the machine ends. Raises
        MachineGone."""
        while not self.link.channel.pump(None, others):
            pass

    def ended(self) -> int:
        """Wait for the end of the command; returns its exit status. Raises MachineGone."""
        while self.status is None:
            self.link.channel.until(lambda: self.status is not None, _TELLING)
        return self.status

    @property
    def status(self) -> int | None:
        """The exit status of the command, as a shell gives it; None before its end."""
        return self._command.status if self._command is not None else None


def write_all(fd: int, data: bytes) -> None:
    """Write all of ``data`` to a blocking descriptor."""
    while data:
        data = data[os.write(fd, data) :]


def reach(where: str | Machine, cpus: int = 2) -> Elsewhere:
    """Connect to a machine: ``lab``, or a Machine: a fresh virtual machine, with the driver loaded; ``ssh:HOST``: a
    machine on which the driver is loaded already; ``here``: this machine.

    Raises UsageError `bad-machine`, TargetError.
    """
    if isinstance(where, Machine):
        return _lab(where)
    kind, _, host = where.partition(":")
    if where == "lab":
        return _lab(Machine(cpus=cpus, arguments=_INTERRUPTS))
    if kind == "ssh" and host:
        link = start_relay(["ssh", *shlex.split(host)])
        return Elsewhere(link, link.close)
    if where == HERE:
        if not is_loaded():
            raise cannot_open(FileNotFoundError(errno.ENOENT, "", DRIVER))
        link = start_relay()
        return Elsewhere(link, link.close)
    raise UsageError("bad-machine", f"{where!r} is not a machine", "it is lab, here, or ssh:HOST")


def _lab(machine: Machine) -> Elsewhere:
    with ExitStack() as stack:
        vm = stack.enter_context(boot(machine))
        module = driver_build.build(driver_build.headers_of(vm.link.release))
        driver_load.load(vm.link, module)
        vm.run(["sh", "-c", f"mountpoint -q {_DEBUGFS} || mount -t debugfs none {_DEBUGFS}"])
        return Elsewhere(vm.link, stack.pop_all().close, vm.console)
