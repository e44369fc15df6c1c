# SPDX-License-Identifier: LGPL-2.1-or-later
"""The machine in whose kernel a program runs, and its processes: a command that waits until the probes are in, or
processes that run already."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from functools import partial
from typing import IO

from gilk.engines.dtrace.outlet import shell_here
from gilk.errors import MachineGone, TargetError
from gilk.image.kernel.build import KernelImage
from gilk.runs.elsewhere import Elsewhere, reach, write_all
from gilk.targets.kernel import held
from gilk.targets.kernel.channel import RemoteProcess, Sink
from gilk.targets.kernel.link import Link
from gilk.targets.kernel.target import KernelTarget
from gilk.targets.kernel.users import UserCommand, UserProcesses, is_stopped
from gilk.targets.launch import Until
from gilk.targets.processor_samples import Counted
from gilk.values import dataclass

#: A shell script that prints its pid, stops, and becomes the command when it is continued.
_WAITING = 'echo $$ >&2; kill -STOP $$; exec "$@"'
#: The places at which a command is stopped after that (held.py), by how far it runs.
_PLACES = {Until.LINKED: "linked", Until.MAIN: "main"}
_PATIENCE = 60.0  # seconds within which the script has to print its pid
_LOOK = 0.05  # seconds between looks at whether a command has come to its place
_LOOKS = 0.5  # seconds between looks at whether processes have ended
_DYING = 30.0  # seconds that a command which was killed may take to end


@dataclass(frozen=True)
class TracedMachine:
    """A kernel and processes that run on it (providers.kernel.probe.HasKernel)."""

    target: KernelTarget
    users: UserProcesses

    @property
    def kernel(self) -> KernelImage:
        return self.target.kernel

    @property
    def link(self) -> Link:
        return self.target.link

    def counts(self, event: Counted) -> bool:
        return self.target.counts(event)


class MachineView:
    """A machine whose kernel is looked at."""

    def __init__(self, target: KernelTarget) -> None:
        self.target = target
        self.users = UserProcesses(target.link)

    @property
    def traced(self) -> TracedMachine:
        return TracedMachine(self.target, self.users)

    def release(self) -> None:
        """Let a command that waits run, if there is one."""

    @property
    def goes_on(self) -> bool:
        """Whether there is something left to trace."""
        return False

    def shell(self, command: bytes, output: IO[bytes]) -> int:
        """Have a shell where the kernel is run a command of system(); returns its exit status."""
        return shell_here(command, output)

    def close(self) -> None:
        """Let go of the machine."""


class OtherMachine(MachineView):
    """A machine, reached by a link. ``target``: its kernel, if the caller has it. ``take`` is given what a command
    prints; by default gilk's own output and errors are."""

    def __init__(self, elsewhere: Elsewhere, target: KernelTarget | None = None, take: Sink | None = None) -> None:
        super().__init__(target or KernelTarget(elsewhere.link, shared=True))
        self._elsewhere = elsewhere
        self._out, self._err = take or partial(write_all, 1), take or partial(write_all, 2)
        self._command: RemoteProcess | None = None
        self._said = b""
        self._begun: dict[int, str] = {}  # by pid, when the traced process began
        self._next_look = 0.0

    @classmethod
    def reached(cls, where: str) -> OtherMachine:
        """Connect to the machine ``where``: ``lab`` or ``ssh:HOST``. Raises as runs.elsewhere.reach()."""
        return cls(reach(where))

    @property
    def own(self) -> int:
        """The number of gilk's own process there; 0 if that is not known. Raises TargetError `command-timeout`,
        MachineGone."""
        return self._elsewhere.relay()

    def start(self, command: Sequence[str], until: Until = Until.EXEC) -> int:
        """Start the command there, stopped until `release`; returns its pid. With ``until`` EXEC, its program is yet to
        be executed. Raises TargetError `cannot-launch`, `no-main`."""
        words = ["sh", "-c", _WAITING, "sh", *command]
        if until in _PLACES:
            words = ["python3", "-I", "-S", "-c", held.text(), _PLACES[until], *command]
        try:
            self._command = self._elsewhere.link.spawn(
                words, self._out, self._hear, directory=os.getcwd(), environment=dict(os.environ)
            )
        except OSError as error:
            raise TargetError("cannot-launch", f"cannot run {command[0]} there: {error.strerror}") from None
        self._command.end_input()
        target = self._number(command[0])
        if until in _PLACES:
            self._come(target, command[0], until)
        known = UserCommand(target, tuple(command), os.getcwd(), dict(os.environ))
        self.users = UserProcesses(self._elsewhere.link, command=known)
        return target

    def attend(self, pids: Sequence[int], by_number: bool) -> None:
        """Trace processes there, until the last of them has ended.

        ``by_number``: descriptions name each by its own pid; else all by the first one's. Raises TargetError
        `no-such-process`.
        """
        for pid in pids:
            began = self.users.began(pid)
            if not began:
                raise TargetError("no-such-process", f"there is no process {pid} there")
            self._begun[pid] = began
        self.users = UserProcesses(self._elsewhere.link, pids, by_number=by_number)

    def _hear(self, data: bytes) -> None:
        """Take what the command writes to standard error; the first line is its pid."""
        if b"\n" in self._said:
            self._err(data)
            return
        self._said, separator, rest = (self._said + data).partition(b"\n")
        self._said += separator
        self._err(rest)

    def _number(self, name: str) -> int:
        assert self._command is not None
        until = time.monotonic() + _PATIENCE
        while b"\n" not in self._said and self._command.status is None and time.monotonic() < until:
            self._elsewhere.link.channel.pump(until - time.monotonic())
        number = self._said.partition(b"\n")[0]
        if not number.isdigit():
            raise TargetError("cannot-launch", f"cannot run {name} there")
        return int(number)

    def _come(self, target: int, name: str, until: Until) -> None:
        """Wait until the command is stopped at its place, however long its own code takes to get there."""
        assert self._command is not None
        while not is_stopped(self._elsewhere.link, target):
            self._elsewhere.link.channel.pump(_LOOK)
            if self._command.status is None:
                continue
            if until is Until.MAIN and self._command.status == 128 + signal.SIGKILL:
                what = f"it cannot be told where the main() of {name} is"
                raise TargetError("no-main", what, "stop it before its constructors run: -x evaltime=preinit")
            raise TargetError("cannot-launch", f"{name} cannot be run there, or ends before it can be traced")

    def release(self) -> None:
        """Let the stopped command run."""
        if self._command is not None:
            self._command.signal(signal.SIGCONT)

    @property
    def goes_on(self) -> bool:
        """Whether there is something left to trace: the command, if there is one, and at least one of the processes, if
        there are some, still runs."""
        if self._begun and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _LOOKS
            if all(self.users.began(pid) != began for pid, began in self._begun.items()):
                return False
        return self._command is None or self._command.status is None

    def shell(self, command: bytes, output: IO[bytes]) -> int:
        """Have a shell there run the command, with its errors among ours; returns its exit status. Raises TargetError,
        OSError."""
        words = ["sh", "-c", os.fsdecode(command)]
        process = self._elsewhere.link.spawn(
            words, output.write, partial(write_all, 2), directory=os.getcwd(), environment=dict(os.environ)
        )
        process.end_input()
        process.wait()
        output.flush()
        return process.status or 0

    def close(self) -> None:
        """Let go of the machine, and kill a command that still runs; a virtual machine of the lab ends then."""
        with contextlib.suppress(MachineGone):
            self.target.link.close_driver()
            if self._command is not None and self._command.status is None:
                self._command.signal(signal.SIGKILL)
                self._command.wait(_DYING)
        self._elsewhere.close()
