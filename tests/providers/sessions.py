# SPDX-License-Identifier: LGPL-2.1-or-later
"""D programs on a process, without a command line: their output, and their refusals."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from gilk.engines.dtrace.asked import Asked, let_go, prepare
from gilk.engines.dtrace.consumer import Consumer
from gilk.render.d.messages import Messages
from gilk.render.d.printer import Printer
from gilk.render.d.printf import formatted
from gilk.render.d.style import Style
from gilk.trace.d.events import Refused
from tests.lang.d.sessions import Pages

LONGEST = 60.0  # seconds


@dataclass(frozen=True)
class Traced:
    """The result of a program. ``lines`` are the non-empty lines of output; ``refused`` are probes, with the reason;
    ``restored`` is whether all is as it was."""

    lines: list[str]
    refused: dict[str, str]
    errors: str
    restored: bool | None

    def numbers(self) -> dict[str, int]:
        """The numbers of lines ``name number``, by name; aggregations whose key is a name print such lines, too."""
        rows = [line.rsplit(None, 1) for line in self.lines]
        return {row[0].strip(): int(row[1]) for row in rows if len(row) == 2 and row[1].lstrip("-").isdigit()}


def traced(text: str, *command: str | Path, pid: int | None = None) -> Traced:
    """Run a program on a ``command``, which is launched and shares this process's output, or on the process ``pid``."""
    asked = Asked((("n", text),), options=(("quiet", None),), pid=pid, command=tuple(map(str, command)))
    consumer = prepare(asked)
    try:
        return _run(consumer)
    finally:
        let_go(consumer)


def _run(consumer: Consumer) -> Traced:
    consumer.compile()
    refused = {str(one.probe): one.reason for one in consumer.start() if isinstance(one, Refused)}
    pages, printer = Pages(), Printer(Messages(), Style.of(consumer.options))
    due = time.monotonic() + LONGEST
    for event in consumer.events(lambda: time.monotonic() > due, pages, formatted):
        pages.take(printer, event)
    assert time.monotonic() < due, "it did not come to its end"
    lines = [line for line in pages.output.decode().splitlines() if line.strip()]
    return Traced(lines, refused, pages.errors, consumer.restored)
