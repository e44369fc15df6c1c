# SPDX-License-Identifier: LGPL-2.1-or-later
"""D programs while they are written: words for the cursor, problems, and a preview.

from gilk.api.d_writing import DWriting

writing = DWriting(4711)            # a process, which is only looked at
writing.words("pid$target:libc.so.6:mal", 24)
writing.check("pid$target:libc.so.6:malloc:entry { @ = count(); }")
"""

from __future__ import annotations

from dataclasses import field

from gilk.engines.dtrace import checking, completing, previewing
from gilk.engines.dtrace.asked import Asked, about
from gilk.engines.dtrace.checking import Checked, MatchedDescription, Problem
from gilk.engines.dtrace.completing import Offered
from gilk.engines.dtrace.consumer import Consumer
from gilk.engines.dtrace.machine import MachineView
from gilk.engines.dtrace.previewing import Previewed, RefusedProbe
from gilk.errors import UsageError
from gilk.lang.d.meaning.world import World
from gilk.lang.d.writing.offered import OfferedWord
from gilk.targets.base import Loaded
from gilk.targets.looking import look
from gilk.targets.process import Process
from gilk.values import dataclass

__all__ = [
    "Checked", "DWriting", "MatchedDescription", "Offered", "OfferedWord", "Previewed", "Problem", "RefusedProbe",
]  # fmt: skip


@dataclass
class DWriting:
    """D programs about the process ``pid``, about the kernel of ``machine``, or about neither.

    The object keeps all that it has found out about the process until the process maps other files. Raises TargetError
    `no-such-process`, `no-permission`.
    """

    pid: int | None = None
    machine: MachineView | None = None
    _process: Process | None = field(init=False)
    _loaded: tuple[Loaded, ...] = ()
    _world: World | None = None

    def __post_init__(self) -> None:
        self._process = None if self.pid is None else look(self.pid)

    def words(self, text: str, at: int) -> Offered:
        """The words that may stand at the cursor, which is before letter ``at`` of the program, from 0."""
        return completing.words(self._consumer(text), text, at)

    def check(self, text: str) -> Checked:
        """The problems of a program, and how many probes its descriptions match."""
        return checking.check(self._consumer(text))

    def preview(self, text: str) -> Previewed:
        """The probes that the program would enable. Raises UsageError `d-program-refused`, `too-many-probes`."""
        consumer = self._consumer(text)
        problems = checking.check(consumer).problems
        if problems:
            raise UsageError("d-program-refused", problems[0].message, "a preview is of a program without problems")
        return previewing.preview(consumer)

    def _consumer(self, text: str) -> Consumer:
        loaded = () if self._process is None else self._process.loaded()
        consumer = about(Asked((("n", text),), pid=self.pid), self._process, self.machine)
        if self._world is None or loaded != self._loaded:
            self._world, self._loaded = consumer.world, loaded
        consumer.known = self._world
        return consumer
