# SPDX-License-Identifier: LGPL-2.1-or-later
"""Deduces the end of a call that was not recorded from the stack pointers of earlier and later events.

A call that was entered with the stack pointer at S is gone when its thread enters something at S or above, or returns
from something above S; and it had not begun when anything happened at S or above. This holds on one stack. A *stack* is
a range of addresses without holes of 64 KiB between the stack pointers of a thread's events; in the kernel, whose
stacks are aligned, 16 KiB of addresses. No call in the kernel is under way while its thread runs in user space.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gilk.trace.nesting import Bools, Ints, first_at_least
from gilk.values import dataclass

_HOLE = 1 << 16
_KERNEL_STACK = 14  # the bits of an address within a stack


@dataclass(frozen=True, eq=False)
class Events:
    """Entries and returns in order of time. `thread` numbers threads from 0. `rounds` are the numbers of entries that
    belong to a call under way.
    """

    thread: Ints
    sp: Ints
    kernel: Bools
    entry: Bools
    rounds: Ints

    @cached_property
    def stack(self) -> Ints:
        """The number of the stack that each event was on; no two threads have one in common."""
        side = self.thread * 2 + self.kernel
        order = np.argsort(side << 32 | self.sp, kind="stable")
        sides, sps, kernel = side[order], self.sp[order], self.kernel[order]
        before = np.roll(sps, 1)
        hole = np.where(kernel, sps >> _KERNEL_STACK != before >> _KERNEL_STACK, sps - before > _HOLE)
        number = np.empty(len(order), np.int64)
        number[order] = np.cumsum(hole | (sides != np.roll(sides, 1)))
        return number

    @cached_property
    def by_stack(self) -> Ints:
        """The numbers of the events, stack by stack."""
        return np.argsort(self.stack, kind="stable")

    @cached_property
    def in_stack(self) -> Ints:
        """The place of each event in `by_stack`."""
        place = np.empty(len(self.by_stack), np.int64)
        place[self.by_stack] = np.arange(len(place))
        return place


def gone_after(events: Events, calls: Ints) -> Ints:
    """The first event that shows that a call is over, for each of `calls`, which are numbers of entries; len(thread) if
    there is none.
    """
    count = len(events.thread)
    if not len(calls):
        return np.empty(0, np.int64)
    fresh = events.entry.copy()
    fresh[events.rounds] = False
    height = (events.sp * 2 + fresh)[events.by_stack]  # an entry counts at the same height, a return above it only
    found = first_at_least(height, events.in_stack[calls], events.sp[calls] * 2 + 1)
    event = np.append(events.by_stack, count)[found]
    elsewhere = np.append(events.stack, -1)[event] != events.stack[calls]
    event[elsewhere] = count
    first: Ints = np.minimum(event, _next_in_user_space(events, calls))
    return first


def not_yet_before(events: Events, returns: Ints) -> Ints:
    """The last event before each of `returns` that cannot have come within its call; -1 if there is none."""
    if not len(returns):
        return np.empty(0, np.int64)
    backwards = events.by_stack[::-1]
    last = len(backwards) - 1
    found = first_at_least(events.sp[backwards], last - events.in_stack[returns], events.sp[returns])
    event = np.append(backwards, -1)[found]
    event[np.append(events.stack, -1)[event] != events.stack[returns]] = -1
    return event


def _next_in_user_space(events: Events, calls: Ints) -> Ints:
    """The next event of the thread of each of `calls` in the kernel that is not in the kernel; len(thread) if there is
    none.
    """
    count = len(events.thread)
    found = np.full(len(calls), count, np.int64)
    kernel = events.kernel[calls]
    if not kernel.any():
        return found
    mine = calls[kernel]
    outside = np.flatnonzero(~events.kernel)
    keys = np.sort(events.thread[outside] * count + outside)
    at = np.searchsorted(keys, events.thread[mine] * count + mine)
    key = np.append(keys, -1)[at]
    found[kernel] = np.where((key >= 0) & (key // count == events.thread[mine]), key % count, count)
    return found
