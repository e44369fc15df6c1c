# SPDX-License-Identifier: LGPL-2.1-or-later
"""The processes that a relay runs for its client. It imports the standard library only, see relay.py."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
import termios

from gilk.targets.framing import MessageKind
from gilk.targets.kernel.messages import RequestRefused, fields, unpack_strings


class Child:
    """A process that the client has asked for, and the relay's ends of its streams."""

    def __init__(self, tag: int, pid: int, stdin: int, outputs: dict[int, int]) -> None:
        self.tag, self.pid, self.stdin = tag, pid, stdin
        self.outputs = outputs  # descriptor -> MessageKind.OUT or ERR
        self.handle = os.pidfd_open(pid)
        self.pending = bytearray()  # input that the process has not read yet
        self.ended = False  # its input ends after the pending bytes
        for descriptor in (stdin, *outputs):
            os.set_blocking(descriptor, False)

    def take(self) -> int:
        """Write pending input to the process; returns how many bytes it took. Bytes that it can read no more count as
        taken."""
        try:
            taken = os.write(self.stdin, self.pending) if self.pending else 0
        except BlockingIOError:
            return 0
        except OSError:
            taken = len(self.pending)
        del self.pending[:taken]
        return taken

    def end_input(self) -> None:
        if self.stdin in self.outputs:  # a terminal takes a character (Ctrl-D) for the end of input
            self.pending += b"\x04"
            self.take()
        else:
            os.close(self.stdin)
            self.stdin = -1

    def close(self) -> None:
        for descriptor in {self.stdin, self.handle, *self.outputs} - {-1}:
            os.close(descriptor)


def spawn(tag: int, payload: bytes) -> Child:
    """Start the process of a SPAWN request. Raises RequestRefused, OSError."""
    rows, columns = fields("<HH", payload[:4])
    directories, at = unpack_strings(payload, 4)
    arguments, at = unpack_strings(payload, at)
    environment, at = unpack_strings(payload, at)
    if at != len(payload) or not arguments or len(directories) != 1:
        raise RequestRefused("not a command")
    variables = dict(each.partition(b"=")[::2] for each in environment)
    if rows:
        ours, theirs = os.openpty()
        resize(ours, rows, columns)
        return Child(tag, _fork(arguments, variables, directories[0], [theirs] * 3), ours, {ours: MessageKind.OUT})
    (stdin, to_them), (from_them, stdout), (errors, stderr) = os.pipe(), os.pipe(), os.pipe()
    try:
        pid = _fork(arguments, variables, directories[0], [stdin, stdout, stderr])
    except OSError:
        for descriptor in (to_them, from_them, errors):
            os.close(descriptor)
        raise
    return Child(tag, pid, to_them, {from_them: MessageKind.OUT, errors: MessageKind.ERR})


def stop(child: Child, number: int) -> None:
    """Send a signal to the process's group: all that it has started and that has stayed in it."""
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        pass


def resize(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("<HHHH", rows, columns, 0, 0))


def _fork(arguments: list[bytes], environment: dict[bytes, bytes], directory: bytes, streams: list[int]) -> int:
    """Start a process in a session of its own with these ``streams``, which are closed here; returns its pid. Raises
    OSError."""
    report, told = os.pipe()
    pid = os.fork()
    if not pid:
        subject = directory
        try:
            _enter(directory, streams)
            subject = arguments[0]
            os.execvpe(subject, arguments, environment)
        except OSError as error:
            os.write(told, struct.pack("<I", error.errno or errno.EINVAL) + subject)
        finally:
            os._exit(127)
    for descriptor in {told, *streams}:
        os.close(descriptor)
    failure = os.read(report, 4096)
    os.close(report)
    if failure:
        os.waitpid(pid, 0)
        number = int.from_bytes(failure[:4], "little")
        raise OSError(number, f"{os.strerror(number)}: {os.fsdecode(failure[4:])}")
    return pid


def _enter(directory: bytes, streams: list[int]) -> None:
    os.setsid()
    if os.isatty(streams[0]):
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and an exec would hand that on
        signal.signal(ignored, signal.SIG_DFL)
    os.chdir(directory)
