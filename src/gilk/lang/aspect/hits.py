# SPDX-License-Identifier: LGPL-2.1-or-later
"""One moment of an event as elements see it, and the values that names have there. The model matches elements against
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gilk.lang.aspect.automaton import Moment
from gilk.lang.aspect.cells import Cell, Value, converted, integer, told
from gilk.lang.aspect.events import AspectEvent, EventKind
from gilk.lang.aspect.fragments import normal
from gilk.lang.types import INT, INT64
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class CallFrame:
    """A call that has not returned: the function, its image and the arguments with which it was called."""

    function: str
    image: str
    arguments: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """One moment of an event. ``frames``: the calls around it, outermost first; for a call or return the last frame is
    that of the call itself. ``values``: the values that events give, by the normal text of each expression. ``result``:
    the value that is returned, read, or to be written. ``inside``: the file in whose advice the event happens, "*" for
    all, "" for none.
    """

    event: AspectEvent
    moment: Moment
    frames: tuple[CallFrame, ...]
    values: Mapping[str, Value]
    result: Value | None = None
    inside: str = ""

    @property
    def is_call(self) -> bool:
        return self.event.kind in (EventKind.CALL, EventKind.RETURN)

    @property
    def own(self) -> CallFrame:
        """The function that is called, or whose code reads or writes."""
        return self.frames[-1] if self.is_call else CallFrame(self.event.function, self.event.image, ())

    @property
    def caller(self) -> tuple[str, str]:
        """The image and the name of the calling function; ("", "") if the caller is not known."""
        if self.event.caller:
            image, _, function = self.event.caller.rpartition(":")
            return image, function
        around = self.frames[:-1] if self.is_call else self.frames
        return (around[-1].image, around[-1].function) if around else ("", "")


def told_values(*events: AspectEvent) -> dict[str, Value]:
    """The values that ``events`` give, by the normal text of each expression; a later event overrides an
    earlier one.
    """
    return {normal(text): value for event in events for text, value in event.values}


class HitScope:
    """The names that a condition or advice can use: bound names, words of the instance, and values that the event
    gives.

    An assignment goes to ``bound``, which is a copy in the case of advice, or to ``words``, which are the instance's.
    """

    def __init__(
        self,
        hit: Hit,
        bound: dict[str, Cell],
        words: dict[str, Cell],
        wrote: Callable[[str, Cell], None] | None = None,
    ) -> None:
        self.hit, self.bound, self.words, self._wrote = hit, bound, words, wrote

    def named(self, name: str) -> Cell | None:
        return self.words.get(name, self.bound.get(name))

    def told(self, text: str) -> Cell | None:
        event, own = self.hit.event, self.hit.own
        match text:
            case "pid()":
                return integer(event.pid, INT)
            case "tid()":
                return integer(event.tid, INT)
            case "now()":
                return integer(event.at, INT64)
            case "jp.function":
                return told(own.function)
            case "jp.image":
                return told(own.image)
            case "jp.caller":
                return told(self.hit.caller[1])
        found = self.hit.values.get(normal(text))
        return None if found is None else told(found)

    def assign(self, name: str, value: Cell) -> bool:
        for names in (self.words, self.bound):
            if name in names:
                names[name] = converted(value, names[name].type)
                if names is self.words and self._wrote is not None:
                    self._wrote(name, names[name])
                return True
        return False

    def store(self, text: str, value: Cell) -> None:
        """Ignore the write: the model has no memory of the program; events say what is in it."""
