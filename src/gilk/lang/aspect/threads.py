# SPDX-License-Identifier: LGPL-2.1-or-later
"""The threads and groups of the model: the calls in which each thread is, and the members of each group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from gilk.lang.aspect.automaton import KERNEL
from gilk.lang.aspect.events import AspectEvent
from gilk.lang.aspect.hits import CallFrame
from gilk.lang.aspect.nesting import Nest
from gilk.values import dataclass


@dataclass(eq=False)
class ModelCall:
    """A call that has not returned. ``event``: its entry. ``ready``: for each aspect, the elements that could match at
    the entry. ``skipped``: the call is within a call that does not take place. ``replaced``: the call itself does not
    take place, because advice in place has returned instead. ``result``: its return event, once it has returned while
    advice still goes on.
    """

    frame: CallFrame
    event: AspectEvent
    ready: tuple[frozenset[int], ...] = ()
    skipped: bool = False
    replaced: bool = False
    result: AspectEvent | None = None
    nest: Nest | None = None


@dataclass(eq=False)
class ModelThread:
    """A thread; ``calls`` are the calls in which it is, outermost first."""

    calls: list[ModelCall] = field(default_factory=list)

    @property
    def frames(self) -> tuple[CallFrame, ...]:
        """The frames of the calls that take place."""
        return tuple(call.frame for call in self.calls if not call.skipped and not call.replaced)

    @property
    def skipping(self) -> bool:
        """Whether the thread is within a call that does not take place."""
        return any(call.replaced for call in self.calls)

    def left_until(self, function: str, image: str) -> list[ModelCall]:
        """Remove the newest call of a function and the calls within it; return them, innermost first.

        The list is empty if there is no such call, which then was entered before the model began.
        """
        return self._left(lambda call: call.frame.function == function and image in ("", call.frame.image))

    def left(self, count: int) -> list[ModelCall]:
        """Remove the ``count`` innermost calls, or all if there are fewer; return them, innermost first."""
        return [self.calls.pop() for _ in range(min(count, len(self.calls)))]

    def _left(self, which: Callable[[ModelCall], bool]) -> list[ModelCall]:
        for count, call in enumerate(reversed(self.calls), 1):
            if which(call):
                return self.left(count)
        return []

    def forked(self) -> ModelThread:
        """The thread of a child after a fork. Advice that waits in the parent is not followed in the child."""
        return ModelThread(
            [ModelCall(call.frame, call.event, call.ready, call.skipped, call.replaced) for call in self.calls]
        )


class ModelThreads:
    def __init__(self) -> None:
        self._threads: dict[tuple[int, int], ModelThread] = {}

    def of(self, event: AspectEvent) -> ModelThread:
        return self._threads.setdefault((event.pid, event.tid), ModelThread())

    def fork(self, event: AspectEvent, child: int) -> None:
        self._threads[(child, child)] = self.of(event).forked()

    def ended(self, pid: int, tid: int | None) -> Iterator[ModelThread]:
        """Remove the thread, or all threads of the process if ``tid`` is None, and yield them."""
        for key in [one for one in self._threads if one[0] == pid and tid in (None, one[1])]:
            yield self._threads.pop(key)


class Groups:
    """The members of groups, which are processes or threads by number. A group without a list of members has all
    processes. A thread that has joined a group by itself, or left it, is a member or not, whatever its process is.
    """

    def __init__(self, members: Mapping[str, tuple[int, ...]]) -> None:
        self._members = {group: set(numbers) for group, numbers in members.items()}
        self._changed: dict[tuple[str, int], bool] = {}  # by group and number: whether it has joined, or left

    def join(self, group: str, number: int) -> None:
        self._changed[group, number] = True

    def leave(self, group: str, number: int) -> None:
        self._changed[group, number] = False

    def fork(self, pid: int, child: int) -> None:
        for numbers in self._members.values():
            if pid in numbers:
                numbers.add(child)
        self._changed |= {(group, child): joined for (group, one), joined in self._changed.items() if one == pid}

    def forget(self, tid: int) -> None:
        """Forget a thread that has ended: another may have its number later."""
        self._changed = {key: joined for key, joined in self._changed.items() if key[1] != tid}

    def has(self, places: tuple[str, ...], event: AspectEvent) -> bool:
        """Whether an event takes place in one of the groups ``places``; if there are none, whether it takes place in a
        process.
        """
        if event.kernel:
            return KERNEL in places
        return not places or any(group != KERNEL and self._is_member(group, event) for group in places)

    def _is_member(self, group: str, event: AspectEvent) -> bool:
        for number in (event.tid, event.pid):
            if (group, number) in self._changed:
                return self._changed[group, number]
        return group not in self._members or bool({event.pid, event.tid} & self._members[group])
