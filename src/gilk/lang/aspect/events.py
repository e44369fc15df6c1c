# SPDX-License-Identifier: LGPL-2.1-or-later
"""The events that the model runs, and the reader of their format, one JSON object a line. docs/aspect/events.md is its
manual.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

from gilk.errors import UsageError
from gilk.lang.aspect.cells import Value
from gilk.spec import duration
from gilk.values import dataclass


class EventKind(StrEnum):
    """The kind of an event; it is the key that every event has in its JSON object."""

    CALL = "call"
    RETURN = "return"
    READ = "read"
    WRITE = "write"
    UNWIND = "unwind"
    FORK = "fork"
    EXIT = "exit"
    JOIN = "join"
    LEAVE = "leave"
    ON = "on"
    OFF = "off"
    GROUPS = "groups"


@dataclass(frozen=True, slots=True)
class AspectEvent:
    """An event in thread ``tid`` of process ``pid`` at ``at`` nanoseconds; in the kernel if ``kernel``.

    ``function``: the function that is called or returns, or whose code reads or writes. ``variable`` or ``address``:
    the place that is read or written, of ``size`` bytes. ``value``: the value that is returned, read, or to be written.
    ``values``: values of expressions, by the text of the expression. ``inside``: the file in whose advice the thread
    is; "*" is every file, "" none. ``number``: the number of frames that are left without returning, or the pid of a
    child. ``word``: the name of a group or aspect, or "thread" or "process" for what exits.
    """

    kind: EventKind
    function: str = ""
    arguments: tuple[Value, ...] = ()
    value: Value | None = None
    old: Value | None = None
    variable: str = ""
    address: int | None = None
    size: int = 8
    image: str = ""
    caller: str = ""
    values: tuple[tuple[str, Value], ...] = ()
    at: int = 0
    pid: int = 1
    tid: int = 1
    kernel: bool = False
    inside: str = ""
    number: int = 1
    word: str = ""
    members: tuple[tuple[str, tuple[int, ...]], ...] = ()
    line: int = 0


_MOST = 1 << 64
_LONGEST = 1 << 20
_HINT = "docs/aspect/events.md describes the format"


def read_events(lines: Iterable[str]) -> tuple[AspectEvent, ...]:
    """The events of a file, in order. Empty lines and lines that begin with # are skipped. Raises UsageError
    bad-events.
    """
    found: list[AspectEvent] = []
    now = 0
    for number, text in enumerate(lines, 1):
        if text.strip() and not text.lstrip().startswith("#"):
            found.append(_Reader(text, number, now).event())
            now = found[-1].at
    return tuple(found)


class _Reader:
    """The reader of one line; ``now`` is the time of the event before it."""

    def __init__(self, text: str, number: int, now: int) -> None:
        self._line, self._now = number, now
        self._left = self._object(text)

    def event(self) -> AspectEvent:
        kind = self._kind()
        about = _ABOUT[kind](self, self._left.pop(kind))
        if kind in (EventKind.CALL, EventKind.RETURN, EventKind.READ, EventKind.WRITE):
            about |= self._happening(kind)
        pid = self._whole("pid", 1, 1)
        tid = self._whole("tid", pid, 1)
        at = self._time()
        if self._left:
            raise self._bad(f"{kind} has no {next(iter(self._left))[:40]!r}")
        return AspectEvent(kind, **about, at=at, pid=pid, tid=tid, line=self._line)

    def _object(self, text: str) -> dict[str, Any]:
        if len(text) > _LONGEST:
            raise self._bad("the line is too long")
        try:
            found = json.loads(text, object_pairs_hook=self._once, parse_constant=self._constant)
        except (ValueError, RecursionError) as error:
            raise self._bad("this is not JSON") from error
        if not isinstance(found, dict):
            raise self._bad("this is not an object")
        return found

    def _once(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise self._bad("a key is there twice")
        return dict(pairs)

    def _constant(self, text: str) -> None:
        raise self._bad(f"{text} is no number")

    def _kind(self) -> EventKind:
        found = [kind for kind in EventKind if kind in self._left]
        if len(found) != 1:
            raise self._bad(f"an event has exactly one of {', '.join(EventKind)}")
        return found[0]

    def _happening(self, kind: EventKind) -> dict[str, Any]:
        """The keys that calls, returns and accesses have in common."""
        inside = self._left.pop("inside", "")
        found = {
            "kernel": self._truth("kernel"),
            "inside": "*" if inside is True else self._text(inside or "", "inside"),
            "values": self._values(self._left.pop("values", {})),
            "caller": self._text(self._left.pop("caller", ""), "caller"),
        }
        if kind is EventKind.CALL:
            return found
        return found | {"value": self._value(self._left.pop("value")) if "value" in self._left else None}

    def called(self, name: object) -> dict[str, Any]:
        found = self.returned(name)
        arguments = self._left.pop("args", [])
        if not isinstance(arguments, list):
            raise self._bad("args is no list")
        return found | {"arguments": tuple(map(self._value, arguments))}

    def returned(self, name: object) -> dict[str, Any]:
        image, colon, function = self._text(name, "the function", empty=False).partition(":")
        if not colon or function.startswith(":"):  # ``::`` is part of a C++ name
            image, function = "", str(name)
        return {"image": self._image(image), "function": function}

    def accessed(self, what: object) -> dict[str, Any]:
        found: dict[str, Any] = {"size": self._whole("size", 8, 1)}
        if isinstance(what, str) and what:
            found |= {
                "variable": self._unicode(what),
                "address": self._whole("address", 0, 0) if "address" in self._left else None,
            }
        else:
            found |= {"address": self._number(what, "the address", 0)}
        found |= {"function": self._text(self._left.pop("function", ""), "function"), "image": self._image("")}
        return found | ({"old": self._value(self._left.pop("old"))} if "old" in self._left else {})

    def counted(self, number: object) -> dict[str, Any]:
        return {"number": self._number(number, "the number", 1)}

    def worded(self, word: object) -> dict[str, Any]:
        return {"word": self._text(word, "the name", empty=False)}

    def ended(self, word: object) -> dict[str, Any]:
        if word not in ("thread", "process"):
            raise self._bad("what exits is a thread or a process")
        return {"word": word}

    def grouped(self, groups: object) -> dict[str, Any]:
        if not isinstance(groups, dict) or not all(isinstance(each, list) for each in groups.values()):
            raise self._bad("groups is an object with a list of pids for each group")
        members = (
            (self._unicode(name), tuple(self._number(one, "a pid", 1) for one in each)) for name, each in groups.items()
        )
        return {"members": tuple(members)}

    def _time(self) -> int:
        at = self._left.pop("at", self._now)
        found = duration.nanoseconds(at) if isinstance(at, str) else self._number(at, "at", 0)
        if found is None or found < self._now or found >= _MOST:
            raise self._bad("at is no time, or one before that of the line before")
        return found

    def _image(self, before: str) -> str:
        return self._text(self._left.pop("image", before), "image")

    def _whole(self, key: str, default: int, least: int) -> int:
        return self._number(self._left.pop(key, default), key, least)

    def _number(self, found: object, what: str, least: int) -> int:
        if not isinstance(found, int) or isinstance(found, bool) or not least <= found < _MOST:
            raise self._bad(f"{what} is no number from {least} on")
        return found

    def _truth(self, key: str) -> bool:
        found = self._left.pop(key, False)
        if not isinstance(found, bool):
            raise self._bad(f"{key} is true or false")
        return found

    def _text(self, found: object, what: str, empty: bool = True) -> str:
        if not isinstance(found, str) or not (found or empty):
            raise self._bad(f"{what} is no text")
        return self._unicode(found)

    def _unicode(self, found: str) -> str:
        try:
            found.encode()
        except UnicodeEncodeError as error:
            raise self._bad("a text is not UTF-8") from error
        return found

    def _value(self, found: object) -> Value:
        """A number that fits 64 bits, a finite floating-point number, or a text."""
        if isinstance(found, bool) or (isinstance(found, int) and -_MOST // 2 <= found < _MOST):
            return int(found)
        if isinstance(found, str):
            return self._unicode(found)
        if isinstance(found, float) and math.isfinite(found):
            return found
        raise self._bad("a value is a number of at most 64 bits, or a text")

    def _values(self, found: object) -> tuple[tuple[str, Value], ...]:
        if not isinstance(found, dict):
            raise self._bad("values is an object: expressions, and what they are")
        return tuple((self._unicode(text), self._value(each)) for text, each in found.items())

    def _bad(self, why: str) -> UsageError:
        return UsageError("bad-events", f"events, line {self._line}: {why}", _HINT)


_ABOUT: Mapping[EventKind, Callable[[_Reader, object], dict[str, Any]]] = {
    EventKind.CALL: _Reader.called,
    EventKind.RETURN: _Reader.returned,
    EventKind.READ: _Reader.accessed,
    EventKind.WRITE: _Reader.accessed,
    EventKind.UNWIND: _Reader.counted,
    EventKind.FORK: _Reader.counted,
    EventKind.EXIT: _Reader.ended,
    EventKind.JOIN: _Reader.worded,
    EventKind.LEAVE: _Reader.worded,
    EventKind.ON: _Reader.worded,
    EventKind.OFF: _Reader.worded,
    EventKind.GROUPS: _Reader.grouped,
}
