# SPDX-License-Identifier: LGPL-2.1-or-later
"""Signal handlers that run while code changes under the instruction that they will return to.

Once that instruction is displaced, its context has to go on in a patch. If the handler found the patch's address in its
ucontext, it would take it for code of the program; so it keeps the original address, and its restorer, which has an
instrument by then, leads the context to the patch (native/runtime/signal.c).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence

from gilk.targets.context_writes import Write, of_word
from gilk.targets.frames import SignalFrame
from gilk.targets.held import Held
from gilk.targets.memory import Memory
from gilk.targets.places import HEAD, ROW, Places
from gilk.targets.staged_batches import StagedBatches

_NEAR = 1 << 14  # bytes of stack between a context that returns from a handler and the handler's frame, at most


class HandlersUnderWay:
    """The handlers of one process that are led back. ``held`` is called for the memory that gilk has in the process, at
    the time of use."""

    def __init__(self, memory: Memory, held: Callable[[], Held], batches: StagedBatches) -> None:
        self._memory = memory
        self._held = held
        self._batches = batches

    def keeps(self, frame: SignalFrame, old: Places, new: Places, returning: Sequence[int]) -> bool:
        """Whether the handler of a frame, whose context has to go on in a patch, may keep the original address that it
        sees. ``returning``: the stack pointers of contexts that may have passed their restorer's instrument."""
        passed = any(0 <= frame.slot - rsp < _NEAR for rsp in returning)
        if passed or not self._led_back(frame.restorer, old, new):
            return False
        noted = frame.note is not None and frame.rip == frame.note.shown
        return not self._is_ours(frame.rip) and (noted or self._is_shown(frame.rip))

    @staticmethod
    def writes(frame: SignalFrame, address: int) -> tuple[Write, ...]:
        """The writes after which a context goes on at ``address`` in a patch, while its handler keeps the address that
        it sees; none without a note, as the restorer's instrument looks the address up then."""
        note = frame.note
        if note is None or frame.rip != note.shown:
            return ()
        return (of_word(note.at + 8, address, note.actual, True),)

    def is_let_down(self, frame: SignalFrame, old: Places, new: Places) -> bool:
        """Whether the frame's restorer leads handlers back before the change, and does not any more after it."""
        return old.leads_back(frame.restorer) and not self._led_back(frame.restorer, old, new)

    def _led_back(self, restorer: int, old: Places, new: Places) -> bool:
        """Whether the restorer leads handlers back after the change."""
        if new.leads_back(restorer):
            return True
        return not old.leads_back(restorer) and self._batches.places(self._batches.active).leads_back(restorer)

    def _is_ours(self, address: int) -> bool:
        held = self._held()
        return held.in_arena(address) or held.in_page(address)

    def _is_shown(self, address: int) -> bool:
        """Whether the runtime has a table that leads from this address to a patch; a table that would be too large is
        not given to it (Workspace.show_places)."""
        return any(self._has(arena.base + arena.table, address) for arena in self._held().arenas[:1] if arena.table)

    def _has(self, word: int, address: int) -> bool:
        """``word``: the address of the pointer to the table, struct gilk_places of native/abi/gilk_abi.h."""
        table = self._word(word)
        if not table:
            return False
        first = table + HEAD + ROW * self._word(table)
        rows = range(first, first + ROW * self._word(table + 8), ROW)
        at = bisect.bisect_left(rows, address, key=self._word)
        return at < len(rows) and self._word(rows[at]) == address

    def _word(self, address: int) -> int:
        return int.from_bytes(self._memory.some(address, 8), "little")
