# SPDX-License-Identifier: LGPL-2.1-or-later
"""Run D programs in the kernel of the tests' machine, from their texts to their output."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO

from gilk.engines.dtrace.compiled import ProgramText
from gilk.engines.dtrace.consumer import Consumer
from gilk.engines.dtrace.machine import OtherMachine
from gilk.engines.dtrace.outlet import Shell
from gilk.lang.d.macros import Macros
from gilk.lang.d.options import Options
from gilk.lang.syntax.source import Source
from gilk.render.d.messages import Messages
from gilk.render.d.printer import Printer
from gilk.render.d.printf import formatted
from gilk.render.d.style import Style
from gilk.runs.elsewhere import Elsewhere
from gilk.targets.kernel.target import KernelTarget
from tests.lang.d.sessions import Pages

LIMIT = 120.0  # seconds for a program that does not end by itself


class ThePages(Pages):
    """An outlet whose commands do run, and have their output among the program's."""

    def system(self, command: bytes, shell: Shell) -> int:
        said = BytesIO()
        status = shell(command, said)
        self.write(said.getvalue())
        return status


@dataclass(frozen=True)
class Ran:
    """The result of a D program. ``restored`` is whether the kernel's code is what it was, ``ended`` whether the
    program ended before the time was up."""

    lines: list[str]
    errors: str
    status: int
    restored: bool | None
    ended: bool = True


def program(
    kernel: KernelTarget, text: str, command: Sequence[str] = (), arguments: Sequence[str] = (),
    pids: Sequence[int] = (), **options: str,
) -> tuple[Consumer, int]:  # fmt: skip
    """The consumer of a compiled program, and the number of the process of the command, which waits. ``pids`` are
    processes that run already."""
    machine = OtherMachine(Elsewhere(kernel.link, lambda: None), kernel)
    target = machine.start(command) if command else 0
    if pids:
        machine.attend(pids, by_number=False)
    chosen = Options()
    for name, value in {"quiet": "", **options}.items():
        chosen.set(name, value or None)
    texts = [ProgramText("script", Source("test.d", text))]
    macros = Macros({"target": target or next(iter(pids), 0)}, ("test.d", *arguments))
    consumer = Consumer(texts, macros, chosen, None, (), machine)
    consumer.compile()
    return consumer, target


def ran(
    kernel: KernelTarget, text: str, command: Sequence[str] = (), arguments: Sequence[str] = (),
    pids: Sequence[int] = (), work: Callable[[], object] = lambda: None, **options: str,
) -> Ran:  # fmt: skip
    """Compile and run a program until it ends, or the command or ``pids`` do. ``work`` is done meanwhile."""
    consumer, target = program(kernel, text, command, arguments, pids, **options)
    try:
        return finished(consumer, work)
    finally:
        if target:
            said = bytearray()
            kernel.link.spawn(["sh", "-c", f"kill -KILL {target} || true"], said.extend, said.extend).wait(LIMIT)


def finished(consumer: Consumer, work: Callable[[], object] = lambda: None) -> Ran:
    """Run a compiled program until it ends, or its command or processes do. ``work`` is done meanwhile."""
    assert consumer.machine is not None
    due = time.monotonic() + LIMIT
    try:
        refused = consumer.start()
        assert not refused, refused
        work()
        pages, printer = ThePages(), Printer(Messages(), Style.of(consumer.options))
        for event in consumer.events(lambda: time.monotonic() > due, pages, formatted):
            pages.take(printer, event)
        lines = [line for line in bytes(pages.output).decode().splitlines() if line]
        return Ran(lines, pages.errors, consumer.exit_status, consumer.restored, time.monotonic() <= due)
    finally:
        consumer.machine.close()
