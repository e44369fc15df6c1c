# SPDX-License-Identifier: LGPL-2.1-or-later
"""Leads contexts out of the patches of an abandoned session, as far as its tables show these patches."""

from __future__ import annotations

from collections.abc import Callable

from gilk.targets.frame_writes import lead, let_go, second_frame
from gilk.targets.frames import SignalFrame, registers_of
from gilk.targets.held import Held
from gilk.targets.remains import Remains
from gilk.targets.thread import Thread
from gilk.targets.traced import Traced
from gilk.targets.waiting_contexts import WaitingContexts
from gilk.targets.way_out import way_out_of_shown


class AbandonedContexts:
    """The threads and waiting handlers of one process that are to go on in code of abandoned sessions. ``held`` is
    called for the memory that gilk has in the process, at the time of use."""

    def __init__(self, process: Traced, held: Callable[[], Held], contexts: WaitingContexts) -> None:
        self._process = process
        self._memory = process.memory
        self._held = held
        self._contexts = contexts

    def lead_out(self, threads: dict[int, Thread], remains: Remains, until: float) -> None:
        """Have the contexts that wait amid patches go on in the original code, if the rest of their patch only restores
        registers. It ends by ``until``."""
        frames = self._waiting_in(threads, remains)
        shown = remains.shown(self._memory) if frames else []
        for frame in frames:
            if frame.is_whole:
                let_go(frame, self._memory)
                continue
            registers = registers_of(frame, self._memory) if frame.is_below and self._process.now() < until else None
            places = next((places for places in shown if places.in_patch(frame.place)), None)
            if registers is not None and places is not None:
                out = way_out_of_shown(registers, places, self._memory, remains.in_code)
                if out is not None:
                    lead(frame, out, self._memory, second_frame(self._held()))

    def are_out(self, threads: dict[int, Thread], remains: Remains) -> bool:
        """Whether no thread is in an abandoned session's code, nor waits in a handler to go on there."""
        inside = any(remains.in_code(thread.registers.rip) for thread in threads.values())
        return not inside and not self._waiting_in(threads, remains)

    def _waiting_in(self, threads: dict[int, Thread], remains: Remains) -> list[SignalFrame]:
        """The contexts that are to go on in the code of an abandoned session. In a program that does not switch stacks,
        frames without a note on stacks without a thread are remains of handlers that have returned; they do not
        count."""
        found = self._contexts.of_threads(threads.values(), {})
        parked = self._contexts.parked(found)
        waiting = [*found.values(), *(frame for frame in parked if remains.switching or frame.note is not None)]
        return [frame for frame in map(self._contexts.as_noted, waiting) if remains.in_code(frame.place)]
