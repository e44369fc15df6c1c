# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs a command in a virtual machine with our standard streams as its own, as ssh does."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
import time
import tty
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from gilk.errors import TargetError
from gilk.lab.vm import VM
from gilk.targets import wire
from gilk.targets.kernel.channel import RemoteProcess

_READ: Final = 64 << 10  # bytes of one read of input


def attach(
    vm: VM, command: Sequence[str], *, directory: str, environment: Mapping[str, str], terminal: bool = False,
    deadline: float | None = None,
) -> int:  # fmt: skip
    """Run the command to its end; returns its status, as a shell gives it. Bytes pass unchanged, over three streams, or
    over a terminal.

    `deadline` is a time of time.monotonic(). Raises TargetError cannot-launch, lab-timeout, and MachineGone when the
    machine ends.
    """
    if not terminal:
        return _carry(vm, _spawn(vm, command, directory, environment, (0, 0)), deadline, -1)
    # Raw mode begins before the process does: from the process's first output on, its terminal must interpret keys.
    with _raw(), _resized() as told:
        return _carry(vm, _spawn(vm, command, directory, environment, _size()), deadline, told)


def _spawn(
    vm: VM, command: Sequence[str], directory: str, environment: Mapping[str, str], size: tuple[int, int]
) -> RemoteProcess:
    try:
        return vm.link.spawn(
            command, partial(_write, 1), partial(_write, 2), directory=directory, environment=environment, size=size
        )
    except OSError as error:
        raise TargetError("cannot-launch", f"cannot run {command[0]} there: {error.strerror}")


def _carry(vm: VM, process: RemoteProcess, deadline: float | None, resized: int) -> int:
    """Pass input on as the process takes it, until the process has ended; returns its status."""
    reading = True
    while process.status is None:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TargetError("lab-timeout", "the command did not end in the time that it was given", vm.tail())
        wanted = [0] if reading and process.hungry else []
        ready = vm.link.channel.pump(left, [*wanted, resized] if resized >= 0 else wanted)
        if resized in ready:
            os.read(resized, _READ)
            process.resize(*_size())
        if 0 in ready:
            reading = _pass_input(process)
    return process.status


def _pass_input(process: RemoteProcess) -> bool:
    """Read input and pass it on; returns whether there may be more."""
    try:
        data = os.read(0, _READ)
    except BlockingIOError:
        return True
    except OSError:  # standard input is closed
        data = b""
    if data:
        process.write(data)
    else:
        process.end_input()
    return bool(data)


def _write(descriptor: int, data: bytes) -> None:
    """Write all of the data, even if the descriptor, which others may share, is non-blocking."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            wire.ready([], [descriptor])


def _size() -> tuple[int, int]:
    """Our terminal's rows and columns, neither of them 0."""
    try:
        rows, columns, _, _ = struct.unpack("<HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))
    except OSError:
        rows = columns = 0
    return rows or 24, columns or 80


@contextmanager
def _raw() -> Iterator[None]:
    """A context in which our terminal, if there is one, passes keys on unchanged to the machine's terminal, which
    interprets them."""
    if not os.isatty(0):
        yield
        return
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSADRAIN)  # earlier input is kept, for the machine
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextmanager
def _resized() -> Iterator[int]:
    """A context with a descriptor that becomes readable when our terminal's size has changed."""
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    before = signal.signal(signal.SIGWINCH, lambda *_: None)
    wakeup = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    try:
        yield told
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGWINCH, before)
        os.close(told)
        os.close(tell)
