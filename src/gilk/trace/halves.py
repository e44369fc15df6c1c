# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds entries and returns that were not matched, but are the two ends of one call.

*Joined*: some functions jump into the middle of another, which then returns for both: mempcpy of glibc continues in
memcpy behind memcpy's entry. The entry is that of the first function, the return that of the second, and the stack
pointer is the same.

*Popping*: some functions take words off the stack that were put there for them: _dl_runtime_resolve of glibc leaves
with its stack pointer above the value on entry. The return of the same function is then the event that shows that the
call is over.
"""

from __future__ import annotations

import numpy as np

from gilk.trace import evidence
from gilk.trace.evidence import Events
from gilk.trace.nesting import Bools, Ints
from gilk.values import dataclass

_MOST_POPPED = 32  # in bytes


@dataclass(frozen=True, eq=False)
class Ends:
    """Numbers of events: those of entries and returns that were matched (`first`, `last`), and those that were not
    (`entered`, `returned`). `function` is by event.
    """

    events: Events
    function: Ints
    first: Ints
    last: Ints
    entered: Ints
    returned: Ints

    def mistaken(self) -> Bools:
        """A mask of the pairs that are not of one call, because their function pops.

        A return of such a function has the stack pointer of some earlier entry, or of none, so none of its pairs is
        right. That distinguishes it from a function that calls itself, the inner call of which was left by a jump into
        the outer one.
        """
        wrong = np.zeros(len(self.first), np.bool_)
        odd = np.unique(self.function[self.returned])
        mine = np.flatnonzero(np.isin(self.function[self.first], odd))
        alone = self.entered[np.isin(self.function[self.entered], odd)]
        entries = np.concatenate([self.first[mine], alone])
        gone = evidence.gone_after(self.events, entries)
        shown = self._popping(entries, gone) >= 0
        right = gone[: len(mine)] >= self.last[mine]
        popping = np.setdiff1d(self.function[self.returned[shown]], self.function[self.first[mine[right]]])
        wrong[mine] = np.isin(self.function[self.first[mine]], popping)
        return wrong

    def halves(self, gone: Ints) -> tuple[Ints, Ints]:
        """The elements of `entered` and of `returned` that belong together, as indices, the two in the same order.

        `gone` has, for each of `entered`, the event that shows that its call is over.
        """
        popping = self._popping(self.entered, gone)
        popping[np.isin(self.function[self.returned], self.function[self.first])] = -1  # it has right pairs
        joined = self._joined(gone)
        joined[np.isin(joined, popping[popping >= 0])] = -1
        chosen = np.where(popping >= 0, popping, joined)
        by_return = np.argsort(self.returned, kind="stable")
        pairs = by_return[chosen[by_return] >= 0]
        once = np.unique(chosen[pairs], return_index=True)[1]  # the first return after an entry is its own
        return chosen[pairs[once]], pairs[once]

    def _popping(self, entered: Ints, gone: Ints) -> Ints:
        """The element of `entered` whose call each of `returned` shows to be over, if that is of its
        function; or -1.
        """
        events, returned = self.events, self.returned
        by_entry = np.argsort(entered, kind="stable")
        ended_by = np.full(len(events.thread) + 1, -1, np.int64)
        ended_by[gone[by_entry]] = by_entry  # the last entered, if there are several
        which = ended_by[returned]
        entry = np.append(entered, 0)[which]
        popped = events.sp[returned] - events.sp[entry]
        fits = (self.function[returned] == self.function[entry]) & (popped > 0) & (popped <= _MOST_POPPED)
        return np.where(fits, which, -1)

    def _joined(self, gone: Ints) -> Ints:
        """The last of `entered` with the stack pointer of each of `returned`, if its call was still under
        way; or -1.
        """
        events, count = self.events, len(self.entered)
        both = np.concatenate([self.entered, self.returned])
        side = events.thread[both] * 2 + events.kernel[both]
        place = np.unique(side << 32 | events.sp[both], return_inverse=True)[1]
        keys = place * len(events.thread) + both
        order = np.argsort(keys[:count], kind="stable")
        at = np.searchsorted(keys[:count][order], keys[count:]) - 1
        which = np.append(order, -1)[at]
        same = (at >= 0) & (np.append(place[:count], -1)[which] == place[count:])
        return np.where(same & (np.append(gone, -1)[which] > self.returned), which, -1)
