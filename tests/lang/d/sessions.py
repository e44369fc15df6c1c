# SPDX-License-Identifier: LGPL-2.1-or-later
"""Run programs in the tests' own process, from their text to their output."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from gilk.engines.dtrace.compiled import ProgramText
from gilk.engines.dtrace.consumer import Consumer
from gilk.engines.dtrace.outlet import Shell
from gilk.engines.dtrace.tracing import Firing
from gilk.lang.d.macros import Macros
from gilk.lang.d.options import Options
from gilk.lang.syntax.source import Source
from gilk.render.d.messages import Messages
from gilk.render.d.printer import Printer
from gilk.render.d.printf import formatted
from gilk.render.d.style import Style
from gilk.trace.d.events import Event, Faulted
from gilk.trace.d.values import Packet

LONGEST = 10.0  # seconds, of a program that does not call exit()


@dataclass
class Pages:
    """An outlet that keeps its output; requests to the system are only noted."""

    output: bytearray = field(default_factory=bytearray)
    errors: str = ""

    def write(self, data: bytes) -> None:
        self.output += data

    def take(self, printer: Printer, event: Event) -> None:
        self.errors += printer.complaint(event)
        self.write(printer.output(event))

    def system(self, command: bytes, shell: Shell) -> int:
        self.output += b"system(" + command + b")\n"
        return 0

    def freopen(self, name: bytes) -> None:
        self.output += b"freopen(" + name + b")\n"

    def ftruncate(self) -> None:
        self.output += b"ftruncate()\n"

    def capture(self, packet: Packet) -> bool:
        return False


def consumer(text: str, arguments: tuple[str, ...] = (), of: type[Consumer] = Consumer) -> Consumer:
    """A consumer of the compiled program. Raises DoesNotCompile, NoSuchProbe."""
    found = of([ProgramText("script", Source("test.d", text))], Macros({}, ("test.d", *arguments)), Options())
    found.compile()
    return found


@dataclass(frozen=True)
class Ran:
    output: bytes
    errors: str
    status: int


def run(path: Path, of: type[Consumer] = Consumer) -> Ran:
    """Run the program at ``path``; its arguments are in a file ``.args`` next to it. Headers have no numbers."""
    given = path.with_suffix(".args")
    session = consumer(path.read_text(), tuple(given.read_text().split()) if given.exists() else (), of)
    assert not session.start()
    pages, printer = Pages(), Printer(Messages(), Style.of(session.options, testing=True))
    for event in session.events(_after(LONGEST), pages, formatted):
        pages.take(printer, event)
    return Ran(bytes(pages.output), pages.errors, session.exit_status)


def happenings(text: str) -> list[Firing | Faulted]:
    """The firings and faults of the program's clauses, in order."""
    session = consumer(text)
    session.start()
    return [one for one in session.happenings(_after(LONGEST)) if isinstance(one, Firing | Faulted)]


class _after:
    def __init__(self, seconds: float) -> None:
        self._due = time.monotonic() + seconds

    def __call__(self) -> bool:
        return time.monotonic() > self._due
