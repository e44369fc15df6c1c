# SPDX-License-Identifier: LGPL-2.1-or-later
"""Links to kernels: the one that gilk runs on, or another through a relay (in a virtual machine, over ssh).

Slow computations, such as plans, are made here; only reading, control and records cross the link.
"""

from __future__ import annotations

import os
import shlex
import signal
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from mmap import mmap
from types import TracebackType
from typing import Final, Protocol, Self

from gilk.errors import MachineGone, TargetError
from gilk.targets.framing import MessageKind
from gilk.targets.kernel.channel import Channel, RemoteProcess, Sink
from gilk.targets.kernel.driver_abi import APPLY, UNDO
from gilk.targets.kernel.messages import LARGEST_ANSWER
from gilk.targets.kernel.own import OwnKernel, too_large
from gilk.targets.kernel.relay import bundle

_PATIENCE: Final = 600.0  # seconds for an answer: to apply a whole-kernel plan under emulation takes long
_AT_HAND: Final = 60.0  # seconds for requests that change no code, however slow the machine
_FAREWELL: Final = 5.0  # seconds for a relay to undo everything and end
PLAIN: Final = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}


class Link(Protocol):
    """A link to a kernel. OSError is the error of the kernel at its other end; MachineGone says that the kernel cannot
    be reached."""

    def read_file(self, path: str) -> bytes:
        """The whole content of a file there, also of /proc and /sys."""

    def read_core(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Kernel memory by (address, size). Raises OSError EFAULT for memory that is not mapped."""

    def open_driver(self) -> None:
        """Open /dev/ilk, unless it is open."""

    def close_driver(self) -> None:
        """Close /dev/ilk, which undoes everything; the link stays."""

    def control(self, request: int, payload: bytes) -> bytes:
        """Make one ioctl: the driver gets the address of a buffer that holds `payload`; returns the buffer's bytes
        afterwards."""

    def controls(self, request: int, payloads: Sequence[bytes]) -> list[bytes]:
        """Make an ioctl for each payload, as control() does; returns the buffers, in order. The first error is raised,
        when some of those behind it may have been made as well."""

    def lend(self, request: int, payload: bytes, place: int, path: str) -> bytes:
        """Make one ioctl as control() does, with a descriptor of a regular file there as an i32 at offset ``place`` of
        the buffer."""

    def drain(self, most: int) -> bytes:
        """At most ``most`` bytes of records; empty when there are none."""

    def map(self, offset: int, size: int, write: bool) -> mmap | None:
        """Map memory of the driver, until /dev/ilk is closed; None when the kernel is not the one that gilk runs on."""

    def run(self, command: Sequence[str]) -> tuple[int, bytes, bytes]:
        """Run a command; returns its exit status as a shell gives it, standard output, and standard error. Raises
        OSError if it cannot be started; TargetError `command-timeout`, having killed it, if it does not end within ten
        minutes."""

    def close(self) -> None:
        """Close the link: /dev/ilk is closed, which undoes everything."""


class LocalLink:
    """A link to the kernel that gilk runs on. Needs root."""

    def __init__(self) -> None:
        self.patience = _PATIENCE  # seconds that a command may take
        self._kernel = OwnKernel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read_file(self, path: str) -> bytes:
        return b"".join(self._kernel.read_file(path))

    def read_core(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [b"".join(self._kernel.read_core([each])) for each in ranges]

    def open_driver(self) -> None:
        self._kernel.open_driver()

    def close_driver(self) -> None:
        self._kernel.close()

    def control(self, request: int, payload: bytes) -> bytes:
        return self._kernel.control(request, payload)

    def controls(self, request: int, payloads: Sequence[bytes]) -> list[bytes]:
        return [self.control(request, payload) for payload in payloads]

    def lend(self, request: int, payload: bytes, place: int, path: str) -> bytes:
        return self._kernel.lend(request, payload, place, path)

    def drain(self, most: int) -> bytes:
        return self._kernel.drain(most)

    def map(self, offset: int, size: int, write: bool) -> mmap | None:
        return self._kernel.map(offset, size, write)

    def fileno(self) -> int:
        """The driver's file, for select() to wait for records. Raises OSError unless it is open."""
        return self._kernel.fileno()

    def run(self, command: Sequence[str]) -> tuple[int, bytes, bytes]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
        try:
            out, err = process.communicate(timeout=self.patience)
        except BaseException as error:
            process.kill()  # no wait: a process in the kernel may not end by that
            if isinstance(error, subprocess.TimeoutExpired):
                raise _too_slow(command, self.patience) from None
            raise
        return process.returncode if process.returncode >= 0 else 128 - process.returncode, out, err

    def close(self) -> None:
        self._kernel.close()


class _Output:
    """The output of a command; ``cut`` when it is longer than LARGEST_ANSWER, and the rest is missing."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.cut = False

    def take(self, piece: bytes) -> None:
        self.cut |= len(self.content) + len(piece) > LARGEST_ANSWER
        if not self.cut:
            self.content += piece


class RelayLink:
    """A link through a relay, whose stream is `channel`; `finish` is called once when the link is closed."""

    def __init__(self, channel: Channel, finish: Callable[[], object] = lambda: None) -> None:
        self.channel = channel
        self.patience = _PATIENCE  # seconds that a request may take
        self._finish = finish
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, traceback: TracebackType | None) -> None:
        self.close()

    @property
    def release(self) -> str:
        """The other kernel's release, as uname -r gives it."""
        return self.channel.release

    def read_file(self, path: str) -> bytes:
        return self._fetch(MessageKind.FILE, os.fsencode(path))

    def read_core(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        joined = self._fetch(MessageKind.CORE, b"".join(struct.pack("<QQ", *each) for each in ranges))
        parts, start = [], 0
        for _, size in ranges:
            parts.append(joined[start : start + size])
            start += size
        return parts

    def open_driver(self) -> None:
        self._ask(MessageKind.OPEN, b"")

    def close_driver(self) -> None:
        self._ask(MessageKind.SHUT, b"")

    def control(self, request: int, payload: bytes) -> bytes:
        return self.controls(request, [payload])[0]

    def controls(self, request: int, payloads: Sequence[bytes]) -> list[bytes]:
        patience = self.patience if request in (APPLY, UNDO) else min(_AT_HAND, self.patience)
        head = struct.pack("<Q", request)
        return self.channel.ask_all(MessageKind.CONTROL, (head + each for each in payloads), patience)

    def lend(self, request: int, payload: bytes, place: int, path: str) -> bytes:
        name = os.fsencode(path)
        return self._fetch(MessageKind.LEND, struct.pack("<QII", request, place, len(name)) + name + payload)

    def drain(self, most: int) -> bytes:
        return self._fetch(MessageKind.DRAIN, struct.pack("<I", most))

    def map(self, offset: int, size: int, write: bool) -> mmap | None:
        return None

    def run(
        self, command: Sequence[str], given: bytes = b"", timeout: float | None = _PATIENCE
    ) -> tuple[int, bytes, bytes]:
        """Run a command with standard input `given`; returns its exit status, standard output, and standard error.
        Raises TargetError command-timeout, having killed it, after `timeout` s, unless that is None; OSError EFBIG,
        having killed it, when its output is longer than LARGEST_ANSWER."""
        out, err = _Output(), _Output()
        process = self.spawn(command, out.take, err.take)
        process.write(given)
        process.end_input()
        ended = self.channel.until(lambda: process.status is not None or out.cut or err.cut, timeout)
        if process.status is None:
            process.signal(signal.SIGKILL)
            process.wait(_PATIENCE)
        if not ended:
            raise _too_slow(command, timeout or 0)
        if out.cut or err.cut:
            raise too_large(f"what {command[0]} wrote")
        return process.status or 0, bytes(out.content), bytes(err.content)

    def spawn(
        self, command: Sequence[str], out: Sink, err: Sink, *,
        directory: str = "/", environment: Mapping[str, str] | None = None, size: tuple[int, int] = (0, 0),
    ) -> RemoteProcess:  # fmt: skip
        """Start a process, which goes on while other requests are made; it is on a terminal if `size` gives rows and
        columns.

        Its output reaches `out` and `err` while a caller waits for anything on this link. Raises OSError.
        """
        variables = {os.fsencode(name): os.fsencode(value) for name, value in (environment or PLAIN).items()}
        words = [os.fsencode(word) for word in command]
        return self.channel.spawn(words, os.fsencode(directory), variables, size, out, err, _PATIENCE)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._finish()

    def _fetch(self, kind: MessageKind, payload: bytes) -> bytes:
        return self.channel.ask(kind, payload, min(_AT_HAND, self.patience))

    def _ask(self, kind: MessageKind, payload: bytes) -> bytes:
        return self.channel.ask(kind, payload, self.patience)


def _too_slow(command: Sequence[str], limit: float) -> TargetError:
    return TargetError("command-timeout", f"{command[0]} did not end within {limit:g} s, and was killed")


def start_relay(through: Sequence[str] = (), timeout: float = 60.0) -> RelayLink:
    """Start a relay behind the command `through`, which runs what it is given (`sudo`, `nsenter ...`, `ssh HOST`), or
    here if it is empty.

    Raises TargetError relay-gone, relay-silent, relay-broken; OSError.
    """
    relay = ["python3", "-I", "-S", "-c", bundle(), "-"]
    if through and os.path.basename(through[0]) == "ssh":
        relay = [shlex.join(relay)]
    process = subprocess.Popen(
        [*through, *relay], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None and process.stdout is not None

    def finish() -> None:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()  # the relay ends when its input does
        process.stdout.close()
        try:
            process.wait(_FAREWELL)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def gone() -> MachineGone:
        return MachineGone("relay-gone", f"the relay has ended: {shlex.join(through) or 'python3'}")

    link = RelayLink(Channel(process.stdout.fileno(), process.stdin.fileno(), gone), finish)
    try:
        if not link.channel.greet(timeout):
            raise TargetError("relay-silent", f"no relay answered within {timeout:g} s")
    except BaseException:
        link.close()
        raise
    return link
