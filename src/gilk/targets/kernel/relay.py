# SPDX-License-Identifier: LGPL-2.1-or-later
"""The far end of a RelayLink: serves requests for a kernel on a byte stream.

    python3 -I -S relay.py DEVICE      a virtio-serial port
    python3 -I -S relay.py -           standard input and output, as under ssh

The relay and its imports need only a few modules of the standard library: it is started where nothing is installed, and
under emulation, where every import takes noticeable time. `bundle()` gives all of it as one program. messages.py is the
protocol.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import struct
import sys
from collections.abc import Iterable

from gilk.targets.framing import FrameReader, MessageKind, TooLarge, framed
from gilk.targets.kernel.children import Child, resize, spawn, stop
from gilk.targets.kernel.messages import LARGEST, MAGIC, PIECE, VERSION, RequestRefused, fields
from gilk.targets.kernel.own import OwnKernel


class Relay:
    """Serves one client until the stream ends."""

    def __init__(self, source: int, sink: int) -> None:
        self.source, self.sink = source, sink
        self.kernel = OwnKernel()
        self.children: dict[int, Child] = {}  # by tag
        self.owners: dict[int, Child] = {}  # by descriptor
        self.poll = select.poll()
        self.poll.register(source, select.POLLIN)
        self.received = FrameReader(LARGEST)

    def send(self, kind: int, tag: int, payload: bytes = b"") -> None:
        message = memoryview(framed(kind, payload, tag))
        while message:
            message = message[os.write(self.sink, message) :]

    def serve(self) -> None:
        self.send(MessageKind.HELLO, 0, MAGIC + struct.pack("<I", VERSION) + os.fsencode(os.uname().release))
        try:
            while True:
                for descriptor, events in self.poll.poll():
                    if descriptor != self.source:
                        self._child_event(descriptor, events)
                    elif not self._receive():
                        return
        finally:
            self.close()

    def close(self) -> None:
        self.kernel.close()
        for child in self.children.values():
            stop(child, signal.SIGKILL)

    def _receive(self) -> bool:
        """Read from the stream, and carry out the requests that are complete; returns False when the stream has ended,
        or is malformed."""
        data = os.read(self.source, PIECE)
        self.received.add(data)
        try:
            while (message := self.received.next()) is not None:
                self._answer(*message)
        except TooLarge as error:
            self._fail(0, errno.EMSGSIZE, str(error))
            return False
        return bool(data)

    def _answer(self, kind: int, tag: int, payload: bytes) -> None:
        try:
            answer = self._carry_out(kind, tag, payload)
            if answer is not None:
                for piece in answer:
                    self.send(MessageKind.PART, tag, piece)
                self.send(MessageKind.DONE, tag)
        except RequestRefused as refusal:
            self._fail(tag, errno.EPROTO, str(refusal))
        except (OSError, ValueError, OverflowError, MemoryError) as error:
            number = getattr(error, "errno", None) or errno.EINVAL
            self._fail(tag, number, getattr(error, "strerror", None) or str(error))

    def _fail(self, tag: int, number: int, text: str) -> None:
        self.send(MessageKind.FAIL, tag, struct.pack("<I", number) + text.encode(errors="replace"))

    def _carry_out(self, kind: int, tag: int, payload: bytes) -> Iterable[bytes] | None:
        """The pieces of the answer; None when the request has none. Raises RequestRefused, OSError."""
        if kind in (MessageKind.INPUT, MessageKind.SIGNAL, MessageKind.WINDOW):
            if tag in self.children:
                self._tell(self.children[tag], kind, payload)
            return None
        if kind == MessageKind.FILE:
            return self.kernel.read_file(os.fsdecode(payload))
        if kind == MessageKind.CORE:
            numbers = fields(f"<{len(payload) // 16 * 2}Q", payload)
            return self.kernel.read_core(zip(numbers[::2], numbers[1::2], strict=True))
        if kind == MessageKind.CONTROL and len(payload) >= 8:
            return (self.kernel.control(int.from_bytes(payload[:8], "little"), payload[8:]),)
        if kind == MessageKind.LEND and len(payload) >= 16:
            request, place, size = struct.unpack_from("<QII", payload)
            path, buffer = payload[16 : 16 + size], payload[16 + size :]
            if len(buffer) < place + 4:
                raise RequestRefused("a descriptor would be beyond the message")
            return (self.kernel.lend(request, buffer, place, os.fsdecode(path)),)
        if kind == MessageKind.DRAIN:
            return (self.kernel.drain(min(*fields("<I", payload), LARGEST)),)
        if kind == MessageKind.SPAWN and tag not in self.children:
            self._adopt(spawn(tag, payload))
            return ()
        if kind in (MessageKind.OPEN, MessageKind.SHUT) and not payload:
            (self.kernel.open_driver if kind == MessageKind.OPEN else self.kernel.close)()
            return ()
        raise RequestRefused(f"no request {kind} with {len(payload)} bytes")

    def _adopt(self, child: Child) -> None:
        self.children[child.tag] = child
        for descriptor in (child.handle, *child.outputs):
            self.owners[descriptor] = child
            self.poll.register(descriptor, select.POLLIN)

    def _tell(self, child: Child, kind: int, payload: bytes) -> None:
        if kind == MessageKind.SIGNAL:
            stop(child, *fields("<I", payload))
        elif kind == MessageKind.WINDOW:
            resize(child.stdin, *fields("<HH", payload))
        elif not child.ended:
            child.pending += payload
            child.ended = not payload
            self._feed(child)

    def _feed(self, child: Child) -> None:
        """Write input to a process as far as it has room, and poll for more room if some is left."""
        taken = child.take()
        if taken:
            self.send(MessageKind.TOOK, child.tag, struct.pack("<I", taken))
        terminal = child.stdin in child.outputs
        if child.pending:
            self.owners[child.stdin] = child
            self.poll.register(child.stdin, select.POLLOUT | (select.POLLIN if terminal else 0))
            return
        if terminal:
            self.poll.register(child.stdin, select.POLLIN)
        elif self.owners.pop(child.stdin, None):
            self.poll.unregister(child.stdin)
        if child.ended and child.stdin >= 0:
            child.end_input()

    def _child_event(self, descriptor: int, events: int) -> None:
        child = self.owners.get(descriptor)
        if child is None:  # the process ended with an earlier event
            return
        if descriptor == child.handle:
            self._bury(child)
        elif descriptor == child.stdin and events & (select.POLLOUT | select.POLLERR):
            self._feed(child)
        else:
            self._pass_on(child, descriptor)

    def _pass_on(self, child: Child, descriptor: int) -> bool:
        """Send what a process wrote; returns whether there may be more."""
        try:
            data = os.read(descriptor, PIECE)
        except BlockingIOError:
            return False
        except OSError:  # EIO: no process has the terminal open any more
            data = b""
        if data:
            self.send(child.outputs[descriptor], child.tag, data)
        else:
            self.poll.unregister(descriptor)
            self.owners.pop(descriptor)
        return bool(data)

    def _bury(self, child: Child) -> None:
        """Report the end of a process, after its output. Output that other processes may still write to its streams is
        dropped."""
        _, status = os.waitpid(child.pid, 0)
        for descriptor in child.outputs:
            while descriptor in self.owners and self._pass_on(child, descriptor):
                pass
        for descriptor in [known for known, owner in self.owners.items() if owner is child]:
            self.poll.unregister(descriptor)
            del self.owners[descriptor]
        child.close()
        del self.children[child.tag]
        self.send(MessageKind.EXIT, child.tag, struct.pack("<i", os.waitstatus_to_exitcode(status)))


def bundle() -> str:
    """The relay as one program text, for `python3 -c` or a file: its modules are created in place, without an import
    search."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parts = {}
    for name in ("framing", "kernel.messages", "kernel.own", "kernel.children", "kernel.relay"):
        with open(f"{folder}/{name.replace('.', '/')}.py", encoding="utf-8") as file:
            parts[f"gilk.targets.{name}"] = file.read()
    return (
        f"import sys, types\nfor name, text in {parts!r}.items():\n"
        "    module = sys.modules[name] = types.ModuleType(name)\n"
        "    exec(compile(text, name, 'exec'), module.__dict__)\n"
        "module.main(sys.argv[1:])\n"
    )


def main(arguments: list[str]) -> None:
    if arguments == ["-"]:
        source, sink = os.dup(0), os.dup(1)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(2, 1)  # a stray print() goes to standard error, not into the protocol
    else:
        source = sink = os.open(arguments[0], os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    os.set_inheritable(source, False)
    os.set_inheritable(sink, False)
    try:
        Relay(source, sink).serve()
    except (BrokenPipeError, ConnectionResetError):
        pass  # the client has gone: everything is undone


if __name__ == "__main__":
    main(sys.argv[1:])
