# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that run in the tests' own process, from their text to what they print."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from gilk.lang.d.macros import Macros
from gilk.lang.d.options import Options
from gilk.lang.syntax.source import Source
from gilk.render.d.messages import Messages
from gilk.render.d.printer import Printer
from gilk.session.dtrace.compiled import Text
from gilk.session.dtrace.consumer import Consumer
from gilk.session.dtrace.tracing import Fault, Firing, Happening

LONGEST = 10.0  # seconds, of a program that does not call exit()


@dataclass
class Pages:
    """An outlet that keeps what it is given; what is asked of the system it only tells of."""

    output: bytearray = field(default_factory=bytearray)
    errors: str = ""

    def write(self, data: bytes) -> None:
        self.output += data

    def complain(self, text: str) -> None:
        self.errors += text

    def system(self, command: bytes) -> None:
        self.output += b"system(" + command + b")\n"

    def freopen(self, name: bytes) -> None:
        self.output += b"freopen(" + name + b")\n"

    def ftruncate(self) -> None:
        self.output += b"ftruncate()\n"


def consumer(text: str, arguments: tuple[str, ...] = ()) -> Consumer:
    """Compiled. Raises DoesNotCompile, NoSuchProbe."""
    found = Consumer([Text("script", Source("test.d", text))], Macros({}, ("test.d", *arguments)), Options())
    found.compile()
    return found


@dataclass(frozen=True)
class Ran:
    output: bytes
    errors: str
    status: int


def run(path: Path) -> Ran:
    """``path``: of the program; its arguments are in a file ``.args`` next to it. Headers are those without numbers."""
    given = path.with_suffix(".args")
    session = consumer(path.read_text(), tuple(given.read_text().split()) if given.exists() else ())
    assert not session.start()
    pages, messages = Pages(), Messages()
    known, tracing = session.compiled.program.aggregations, session.tracing
    printer = Printer(pages, session.options, messages, known, tracing.aggregations, session.symbols, testing=True)
    printer.begin()
    session.run(_after(LONGEST), printer.show)
    session.finish(printer.show)
    printer.end()
    return Ran(bytes(pages.output), pages.errors, session.exit_status)


def happenings(text: str) -> list[Firing | Fault]:
    """What the clauses of a program did, in order."""
    session = consumer(text)
    session.start()
    found: list[Happening] = []
    session.run(_after(LONGEST), found.append)
    session.finish(found.append)
    return [one for one in found if isinstance(one, Firing | Fault)]


class _after:
    def __init__(self, seconds: float) -> None:
        self._due = time.monotonic() + seconds

    def __call__(self) -> bool:
        return time.monotonic() > self._due
