# SPDX-License-Identifier: LGPL-2.1-or-later
"""A whole session of a D program: what it needs is opened, it runs until something ends it, and all is taken out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from gilk.errors import OutOfMemory, UsageError
from gilk.lang.d.macros import Macros
from gilk.lang.d.options import Options
from gilk.lang.d.probes import Probe
from gilk.lang.syntax.source import Source
from gilk.session.dtrace import libraries
from gilk.session.dtrace.compiled import Compiled, Text, compile_programs
from gilk.session.dtrace.enabling import Enabled, enable
from gilk.session.dtrace.symbols import Symbols
from gilk.session.dtrace.tracing import Happening, Tracing
from gilk.session.dtrace.world import World
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.target.process import Process

_SIZES = ("bufsize", "aggsize", "dynvarsize", "specsize")
_SMALLEST = 4096
_LONGEST = 0.1  # seconds between looks at signals and at the process


@dataclass
class Consumer:
    """``compile`` first, then ``start``, ``run`` and ``finish``."""

    texts: Sequence[Text]
    macros: Macros
    options: Options
    process: Process | None = None
    library_directories: tuple[str, ...] = ()
    compiled: Compiled = field(init=False)
    enabled: Enabled = field(init=False)
    tracing: Tracing = field(init=False)
    symbols: Symbols = field(init=False)
    lowered: dict[str, int] = field(default_factory=dict)  # options that say more than there was memory for

    def compile(self) -> None:
        """Raises DoesNotCompile, NoSuchProbe."""
        self.compiled = compile_programs(self.texts, self.macros, self.options, World(self.process), self._libraries())
        self.enabled = enable(self.compiled.program, self.process, self.options.flag("zdefs"))

    def _libraries(self) -> list[Source]:
        """Raises UsageError."""
        if self.options.flag("nolibs"):
            return []
        directory = self.options.text("libdir")
        directories = (*self.library_directories, *([directory] if directory else []))
        return libraries.wanted([text.source.text for text in self.texts], directories, self.process)

    def start(self) -> list[tuple[Probe, str]]:
        """Probes go in, BEGIN fires, a launched program runs. Those that cannot be had come back, with the reason."""
        self.symbols = Symbols(self.process)
        self.tracing = self._tracing()
        self.tracing.begin()
        if self.process is not None:
            self.process.release()
        return self.tracing.refused

    def _tracing(self) -> Tracing:
        """With bufresize=auto what there is no memory for is made smaller. Raises UsageError `buffers-too-large`."""
        while True:
            try:
                return Tracing(self.compiled.program, self.enabled, self.options, self.process)
            except (OSError, ValueError, OutOfMemory) as error:
                largest = max(_SIZES, key=self.options.number)
                size = self.options.number(largest) // 2
                if self.options.text("bufresize") == "manual" or size < _SMALLEST:
                    raise UsageError("buffers-too-large", f"{largest} is more memory than there is") from error
                self.options.set(largest, str(size))
                self.lowered[largest] = size

    def run(self, stop: Callable[[], bool], show: Callable[[Happening], None]) -> None:
        """Until exit(), until the process has ended, a buffer is full (fill), or ``stop`` says so."""
        tracing, options = self.tracing, self.options
        duties: tuple[tuple[Callable[[], object], Callable[[], int]], ...] = (  # and how often, which may change, in ns
            (lambda: self._drain(show), lambda: options.number("switchrate")),
            (lambda: self._tell_losses(show), lambda: options.number("statusrate")),
            (tracing.tend, lambda: options.number("aggrate")),
            (tracing.clean, lambda: options.number("cleanrate")),
        )
        due = [0.0] * len(duties)
        while not stop() and tracing.active and not tracing.full and self._goes_on():
            wait = tracing.fire_ticks()
            self._follow()
            now = time.monotonic()
            for n, (duty, rate) in enumerate(duties):
                if now >= due[n]:
                    duty()
                    due[n] = now + rate() / 1e9
            soonest = min(due[:-1])  # it is not worth being awake for the last
            time.sleep(max(min(wait, soonest - now, _LONGEST), 0.0))

    def _goes_on(self) -> bool:
        if self.process is None:
            return True
        if not self.process.alive or not self.process.keeper.there:
            return False
        return not self.process.launched or self.process.wait(block=False) is None

    def _tell_losses(self, show: Callable[[Happening], None]) -> None:
        for loss in self.tracing.losses():
            show(loss)
        self.tell_corruptions(show)

    def tell_corruptions(self, show: Callable[[Happening], None]) -> None:
        """What the process has written into gilk's own memory; to be called once more when all has been printed."""
        for corrupt in self.tracing.corruptions():
            show(corrupt)

    def _drain(self, show: Callable[[Happening], None], final: bool = False) -> int:
        number = 0
        for number, happening in enumerate(self.tracing.poll(final), 1):
            if number == 1:  # records have all been read by now: what they are about is mapped
                self._follow()
            show(happening)
        return number

    def _follow(self) -> None:
        if self.tracing.follow():
            self.symbols.look()

    def finish(self, show: Callable[[Happening], None]) -> bool | None:
        """Whether the process is what it was; None without one."""
        self._drain(show)
        restored = self.tracing.end()
        while self._drain(show, final=True):  # faults of END have ERROR to tell of them
            pass
        self._tell_losses(show)
        return restored

    @property
    def exit_status(self) -> int:
        """As the program says; 1 where what it says cannot be relied on."""
        return 1 if self.tracing.corrupt else self.tracing.exit_status or 0
