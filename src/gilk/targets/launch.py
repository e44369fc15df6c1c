# SPDX-License-Identifier: LGPL-2.1-or-later
"""Starts a program and stops it where its code is in place but none of it has run, or a little before or after.

A static program is stopped at its first instruction, a dynamic one when the dynamic linker says that all libraries are
mapped and relocated (``_dl_debug_state`` with ``r_state`` RT_CONSISTENT, link.h), before any of their constructors run;
from there it can run on to its main().
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from enum import Enum, auto

from gilk.errors import TargetError
from gilk.targets import ptrace
from gilk.targets.memory import Memory, ProcessMemory
from gilk.values import dataclass

_INT3 = b"\xcc"
#: Signals whose dispositions the keeper, or Python, has changed, which an exec would hand on.
_RESET = frozenset(
    (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTTOU, signal.SIGPIPE, signal.SIGXFSZ)
)


#: A limit on the instructions from the entry of a program to where its main() is handed over: a dozen in glibc, some
#: forty in musl.
_MOST_STEPS = 200
_LONGEST = 15  # bytes of an instruction
_OPTIONS = ptrace.O_TRACEEXEC | ptrace.O_TRACESYSGOOD | ptrace.O_EXITKILL
_LONGEST_EXEC = 60.0  # seconds
_LOOK = 0.2  # seconds between checks whether the client still waits


class Until(Enum):
    """How far a program runs before it is stopped."""

    EXEC = auto()  # before its first instruction; its libraries are not there yet
    LINKED = auto()  # its libraries are in place
    MAIN = auto()  # all constructors have run


@dataclass(frozen=True)
class Command:
    """A command to run, and the process group that it joins (0: a new one of its own)."""

    arguments: tuple[str, ...]
    environment: dict[str, str]
    directory: str
    group: int
    ignored: frozenset[int] = frozenset()  # signals that the program inherits as ignored, as its user's shell did


@dataclass(frozen=True)
class ProcessEnd:
    """How a process ended; ``code`` is the exit status that a shell would give."""

    code: int


#: Whether the client is still there: a wait for a program's own code to reach a place has no other end.
Awaited = Callable[[], bool]
#: Called with a pid and its wait status, which may say that it is not the process that it was.
Noted = Callable[[int, int], object]


def _nothing(_pid: int, _status: int) -> None:
    pass


class Abandoned(Exception):
    """The client that waited for a program to reach a place has gone."""


def launch(command: Command) -> int:
    """Start a program; returns the pid of the new process, which is in an event stop right behind its execve.

    Raises TargetError `cannot-launch`.
    """
    wake, ready = os.pipe()
    failed, fail = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child(command, wake, fail)
    os.close(wake)
    os.close(fail)
    try:
        ptrace.seize(pid, _OPTIONS)
        os.write(ready, b"!")
        status = ptrace.wait(pid, _LONGEST_EXEC)
        if not os.WIFSTOPPED(status):
            raise _failure(command, failed)
        to_user(pid, status)
    except ptrace.Late:
        _end(pid)
        what = f"{command.arguments[0]} has not begun in {_LONGEST_EXEC:.0f} s"
        raise TargetError("cannot-launch", what, "its file may be out of reach") from None
    finally:
        os.close(ready)
        os.close(failed)
    return pid


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def wait(pid: int, awaited: Awaited) -> int:
    """The next wait status of a child, however long that takes. Raises Abandoned, ProcessLookupError."""
    while True:
        try:
            return ptrace.wait(pid, _LOOK)
        except ptrace.Late:
            if not awaited():
                raise Abandoned from None


def _child(command: Command, wake: int, fail: int) -> None:
    try:
        with contextlib.suppress(OSError):
            os.setpgid(0, command.group)
        for number in _RESET - command.ignored:
            signal.signal(number, signal.SIG_DFL)
        ptrace.as_before()
        os.read(wake, 1)
        os.chdir(command.directory)
        os.execvpe(command.arguments[0], list(command.arguments), command.environment)
    except OSError as error:
        os.write(fail, str(error.errno).encode())
    finally:
        os._exit(127)


def _failure(command: Command, failed: int) -> TargetError:
    code = os.read(failed, 16)
    why = os.strerror(int(code)) if code else "it ended at once"
    return TargetError("cannot-launch", f"cannot run {command.arguments[0]}: {why}")


def to_user(pid: int, status: int = 0, noted: Noted = _nothing) -> None:
    """Lead a process from its exec event to an event stop on the way back to user mode. Raises TargetError
    `cannot-launch`."""
    while not ptrace.is_event_stop(status):
        ptrace.call(ptrace.INTERRUPT, pid)
        arrived = 0 if status >> 16 or os.WSTOPSIG(status) == ptrace.SIGTRAP else os.WSTOPSIG(status)
        ptrace.call(ptrace.CONT, pid, 0, arrived)
        status = ptrace.wait(pid)
        noted(pid, status)
        if not os.WIFSTOPPED(status):
            raise TargetError("cannot-launch", "the program ended before its first instruction")


def run_until_linked(
    pid: int, memory: Memory, notify: int, state: int, awaited: Awaited, noted: Noted = _nothing
) -> bool:
    """Let the dynamic linker work until it reports a consistent state; returns False when the program ended first.

    ``notify`` is the address of ``_dl_debug_state``, ``state`` that of ``_r_debug.r_state``. Raises as run_to() does.
    """

    def linked() -> bool:
        return int.from_bytes(memory.read(state, 4), "little") == 0

    return run_to(pid, memory, notify, awaited, linked, noted)


def run_to(
    pid: int,
    memory: Memory,
    address: int,
    awaited: Awaited,
    wanted: Callable[[], bool] = lambda: True,
    noted: Noted = _nothing,
) -> bool:
    """Let the program run until it reaches ``address`` and ``wanted`` returns true; returns False when it ends, or
    executes another program, first.

    Raises Abandoned.
    """
    kept = memory.read(address, 1)
    memory.write(address, _INT3)
    arrived, alone = 0, noted is _nothing
    if alone:
        ptrace.call(ptrace.SETOPTIONS, pid, 0, _OPTIONS | ptrace.O_TRACEFORK)
    while True:
        ptrace.call(ptrace.CONT, pid, 0, arrived)
        status = wait(pid, awaited)
        noted(pid, status)
        if alone and os.WIFSTOPPED(status) and status >> 16 == ptrace.EVENT_FORK:
            _spare(ptrace.event_message(pid), address, kept)
        if not os.WIFSTOPPED(status) or status >> 16 == ptrace.EVENT_EXEC:
            return False
        registers = ptrace.get_registers(pid)
        if status >> 16 or os.WSTOPSIG(status) != ptrace.SIGTRAP or registers.rip != address + 1:
            arrived = 0 if status >> 16 else os.WSTOPSIG(status)
            continue
        arrived = 0
        memory.write(address, kept)
        registers.rip = address
        ptrace.set_registers(pid, registers)
        if wanted():
            if alone:
                ptrace.call(ptrace.SETOPTIONS, pid, 0, _OPTIONS)
            to_user(pid, status, noted)
            return True
        ptrace.call(ptrace.SINGLESTEP, pid, 0, 0)
        ptrace.wait(pid)
        memory.write(address, _INT3)


def _spare(child: int, address: int, kept: bytes) -> None:
    """Let a child that the program has forked go, without the breakpoint that it has inherited."""
    with contextlib.suppress(TargetError, OSError, ptrace.Late):  # it has been killed
        ptrace.wait(child)
        with ProcessMemory(child) as memory:
            memory.write(address, kept)
        ptrace.call(ptrace.DETACH, child, 0, 0)


def main_of(pid: int, low: int, high: int) -> int:
    """Step from the entry of a program to where it hands over its main(); returns main()'s address, which must lie
    between ``low`` and ``high``, or 0 if the program never hands it over.

    main() is the first argument of __libc_start_main, however that is called.
    """
    before = ptrace.get_registers(pid).rip
    for _ in range(_MOST_STEPS):
        ptrace.call(ptrace.SINGLESTEP, pid, 0, 0)
        status = ptrace.wait(pid)
        if not os.WIFSTOPPED(status):
            return 0
        registers = ptrace.get_registers(pid)
        if not 0 <= registers.rip - before <= _LONGEST and low <= registers.rdi < high:
            to_user(pid, status)
            return int(registers.rdi)
        before = registers.rip
    to_user(pid, status)
    return 0
