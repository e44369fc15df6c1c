# SPDX-License-Identifier: LGPL-2.1-or-later
"""A D program that runs for a window: the server is sent what `gilk dtrace` would print, and the aggregations.

Destructive actions are refused, even if the program's own options allow them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from gilk.api import dtrace as d_programs
from gilk.errors import CompileError, GilkError, MachineGone, TargetError, UsageError
from gilk.render.d.messages import Messages
from gilk.render.d.printer import Printer
from gilk.render.d.refused import told_lacking
from gilk.render.d.style import Style
from gilk.web.frames import Message, ServerChannel, ServerEnded
from gilk.web.growing import GrowingAggregations
from gilk.web.kept_output import KeptOutput
from gilk.web.pace import Pace
from gilk.web.standing import still

Json = dict[str, Any]
_LOOKS: Final = 1.0  # the seconds between two looks at aggregations


class PrintingHost:
    """Sends the state of a program. ``ends`` is called from time to time, and returns whether the program is to end.
    ``pids``: the processes that it is about.
    """

    def __init__(self, channel: ServerChannel, ends: Callable[[], bool], pids: Sequence[int] = ()) -> None:
        self._channel, self._ends, self._pids = channel, ends, pids
        self._growing, self._looked = GrowingAggregations(), 0.0
        self._alone = False  # whether the server has ended
        self._pace, self._changed = Pace(), True
        self._began = time.monotonic()
        self._printed = KeptOutput()
        self._drops = 0
        self._report: Json | None = None

    def carry_out(self, consumer: d_programs.Consumer, first: Message) -> None:
        """Run a program, from the answer to the message ``first`` to the report. Raises GilkError; unless it is
        MachineGone, nothing has changed then.
        """
        _compile(consumer)
        printer = Printer(Messages("dtrace"), Style.of(consumer.options, False))
        for matched in consumer.matched:
            self._take(printer, matched)
        self._say(told_lacking(printer, consumer.start()).encode("utf-8", "surrogateescape"))
        with suppress(ServerEnded):
            self._channel.send({"id": first["id"], "ok": {"host": os.getpid()}})
        try:
            for event in d_programs.dtrace_events(consumer, lambda: self._stop(consumer), d_programs.Aside()):
                self._take(printer, event)
            self._report = self._report or {"restored": None, "status": 0, "notes": []}
        except GilkError as error:
            self._report = {"restored": None, "status": 1, "notes": [f"{error.message} ({error.slug})"]}
            if isinstance(error, MachineGone):
                raise
        finally:
            with suppress(ServerEnded):
                self._send()

    def add(self, data: bytes) -> None:
        """Add bytes to the output."""
        self._printed.take(data)
        self._changed = True

    def _stop(self, consumer: d_programs.Consumer) -> bool:
        """Whether the program is to end; also sends the state if it is time."""
        now = time.monotonic()
        if now - self._looked >= _LOOKS:
            self._looked, self._changed = now, True
            self._growing.take(consumer.contents(), now - self._began)
        try:
            if self._changed:
                self._pace.tell(self._send)
        except ServerEnded:
            self._alone = True
        return self._ends() or self._alone

    def _send(self) -> None:
        """Send the state. Raises ServerEnded."""
        self._changed = False
        seconds = round(time.monotonic() - self._began, 3)
        state: Json = {"seconds": seconds, "drops": self._drops, **self._printed.to_json()}
        state["aggregations"] = self._growing.shown()
        state["still"] = [] if self._report is not None else still(self._pids)
        self._channel.send({"state": {**state, "report": self._report} if self._report is not None else state})

    def _take(self, printer: Printer, event: d_programs.events.Event) -> None:
        if isinstance(event, d_programs.events.Dropped):
            self._drops += event.count
        if isinstance(event, d_programs.events.Exited):
            self._report = {"restored": event.restored, "status": event.status, "notes": []}
        if isinstance(event, d_programs.events.Snapshot) and event.final:
            self._growing.finish(event)
        self._say(printer.complaint(event).encode("utf-8", "surrogateescape") + printer.output(event))

    def _say(self, data: bytes) -> None:
        if data:
            self.add(data)


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
