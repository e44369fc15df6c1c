# SPDX-License-Identifier: LGPL-2.1-or-later
"""The process of a D program that runs in a window: it sends to the server what `gilk dtrace` would print.

    python -m gilk.web.d_host READING WRITING

The first message has the program and the process. The process ends in the same cases as host.py. Destructive actions
are refused, even if the program's own options allow them.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Any, Final

from gilk.api import dtrace as d_programs
from gilk.errors import CompileError, GilkError, TargetError, UsageError
from gilk.render.d.messages import Messages
from gilk.render.d.printer import Printer
from gilk.render.d.style import Style
from gilk.web.frames import ServerChannel, ServerEnded, told
from gilk.web.grants import check_born
from gilk.web.growing import GrowingAggregations
from gilk.web.host import leave

Json = dict[str, Any]
_EVERY: Final = 0.1  # the seconds between two states that are sent
_LOOKS: Final = 1.0  # the seconds between two looks at aggregations
_KEPT: Final = 16 << 10  # the number of the last bytes of the output that are shown


class PrintingHost:
    """Sends the state of the program. ``report`` is None until the program has ended."""

    def __init__(self, channel: ServerChannel, consumer: d_programs.Consumer) -> None:
        self._channel, self._consumer = channel, consumer
        self._growing, self._looked = GrowingAggregations(), 0.0
        self._over = False
        self._told, self._changed = 0.0, True
        self._began = time.monotonic()
        self._printed, self._length = bytearray(), 0
        self._drops = 0
        self.report: Json | None = None

    def stop(self) -> bool:
        """Whether the server has asked for the end, or has ended itself; also sends the state if it is time."""
        self._look()
        try:
            self.tell(now=False)
            while not self._over and self._channel.waits(0):
                self._over = self._channel.receive()["ask"] == "end"
        except ServerEnded:
            self._over = True
        return self._over

    def _look(self) -> None:
        """Read the aggregations from time to time, while the program goes on."""
        now = time.monotonic()
        if now - self._looked >= _LOOKS:
            self._looked = now
            self._growing.take(self._consumer.contents(), now - self._began)
            self._changed = True

    def tell(self, now: bool) -> None:
        """Send the state if it has changed and it is time, or in any case if ``now``. Raises ServerEnded."""
        if not now and (not self._changed or time.monotonic() - self._told < _EVERY):
            return
        self._told, self._changed = time.monotonic(), False
        state: Json = {"seconds": round(self._told - self._began, 3), "drops": self._drops, "bytes": self._length}
        state["printed"] = self._printed.decode("utf-8", "replace")
        state["aggregations"] = self._growing.shown()
        self._channel.send({"state": {**state, "report": self.report} if self.report is not None else state})

    def take(self, printer: Printer, event: d_programs.events.Event) -> None:
        if isinstance(event, d_programs.events.Dropped):
            self._drops += event.count
        if isinstance(event, d_programs.events.Exited):
            self.report = {"restored": event.restored, "status": event.status, "notes": []}
        if isinstance(event, d_programs.events.Snapshot) and event.final:
            self._growing.finish(event)
        data = printer.complaint(event).encode("utf-8", "surrogateescape") + printer.output(event)
        if data:
            self._printed += data
            self._length += len(data)
            self._changed = True
            del self._printed[:-_KEPT]


def _compile(consumer: d_programs.Consumer) -> None:
    """Compile the program. Raises CompileError, UsageError, TargetError."""
    try:
        consumer.compile(False)
    except d_programs.DoesNotCompile as error:
        found = error.wrong.diagnostic
        raise CompileError("bad-d-program", f"[{found.tag}] line {error.wrong.line}: {error}", found.hint) from None
    except d_programs.NoSuchProbe as error:
        raise UsageError("no-such-probe", str(error), "gilk dtrace -l lists probes") from None
    if consumer.compiled.program.destructive is not None:
        raise UsageError("destructive-in-window", "the program has destructive actions", "gilk dtrace -w runs such")
    if not consumer.has_room:
        raise TargetError("no-room-for-records", "a clause records more than a buffer holds", "set option bufsize")


def main() -> None:
    channel = ServerChannel.given()
    signal.signal(signal.SIGTERM, leave)
    begun: Json = {}
    consumer: d_programs.Consumer | None = None
    try:
        begun = channel.receive()
        given = begun["given"]
        ((pid, born),) = ((int(pid), born) for pid, born in given["processes"].items())
        consumer = d_programs.prepare(d_programs.Asked((("n", given["text"]),), (), (), pid, ()))
        check_born(pid, born)
        _compile(consumer)
        _carry_out(consumer, channel, begun)
    except ServerEnded:
        pass
    except GilkError as error:
        with suppress(ServerEnded):
            channel.send({"id": begun.get("id", 0), "error": told(error)})
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if consumer is not None:
            d_programs.let_go(consumer)


def _carry_out(consumer: d_programs.Consumer, channel: ServerChannel, begun: Json) -> None:
    host = PrintingHost(channel, consumer)
    printer = Printer(Messages("dtrace"), Style.of(consumer.options, False))
    begun_with: tuple[d_programs.events.Event, ...] = (*consumer.matched, *consumer.start())
    for first in begun_with:
        host.take(printer, first)
    channel.send({"id": begun["id"], "ok": {"host": os.getpid()}})
    for event in d_programs.dtrace_events(consumer, host.stop, d_programs.Aside()):
        host.take(printer, event)
    host.report = host.report or {"restored": None, "status": 0, "notes": []}
    host.tell(now=True)


if __name__ == "__main__":
    main()
