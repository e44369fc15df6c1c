# SPDX-License-Identifier: LGPL-2.1-or-later
"""The events at which a trace starts and stops, as a user writes them."""

from __future__ import annotations

import re
import signal

from gilk.errors import UsageError
from gilk.values import dataclass

_UNITS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|ms|us|min|m|h)?")
_WORDS = "now, call:FUNCTION[:N], return:FUNCTION[:N], after:2s, for:200ms, signal:USR2, key:alt-f, exit"


@dataclass(frozen=True)
class Event:
    """``text`` is what the user wrote."""

    text: str


@dataclass(frozen=True)
class Now(Event):
    """At once."""


@dataclass(frozen=True)
class Exit(Event):
    """When the program ends; until then, or until Ctrl-C."""


@dataclass(frozen=True)
class Reach(Event):
    """The ``hits``-th time that control gets to ``where`` (``entry`` or ``return``) of a function."""

    function: str
    where: str
    hits: int


@dataclass(frozen=True)
class Elapsed(Event):
    """``seconds`` after the program was attached to or launched; or after the trace began, when ``since_start``."""

    seconds: float
    since_start: bool


@dataclass(frozen=True)
class Signal(Event):
    """gilk itself is sent a signal."""

    number: signal.Signals


@dataclass(frozen=True)
class Key(Event):
    """A combination of keys on a keyboard of this machine; the last one pressed is ``keys[-1]``."""

    keys: tuple[str, ...]


def parse(text: str) -> Event:
    """Raises UsageError `bad-event`."""
    word, _, rest = text.partition(":")
    if word in ("now", "exit") and not rest:
        return Now(text) if word == "now" else Exit(text)
    if word in ("call", "return") and rest:
        return _reach(text, word, rest)
    if word in ("after", "for"):
        return Elapsed(text, _seconds(text, rest), word == "for")
    if word == "signal" and rest:
        return Signal(text, _signal(text, rest))
    if word == "key" and rest:
        return Key(text, tuple(rest.lower().split("-")))
    raise UsageError("bad-event", f"{text!r} is not an event", f"an event is one of {_WORDS}")


def _reach(text: str, word: str, rest: str) -> Reach:
    function, _, count = rest.rpartition(":")
    if not function or not count.isdigit():
        function, count = rest, "1"
    if not all(function.split(":")):
        raise UsageError("bad-event", f"{text!r}: {function!r} is no function", f"an event is one of {_WORDS}")
    if not int(count):
        raise UsageError("bad-event", f"{text!r}: counting begins with 1")
    return Reach(text, function, "entry" if word == "call" else "return", int(count))


def _seconds(text: str, rest: str) -> float:
    match = _DURATION.fullmatch(rest)
    if match is None:
        raise UsageError("bad-event", f"{text!r}: {rest!r} is no time", "for example 2s, 200ms or 1.5min")
    return float(match[1]) * _UNITS[match[2] or ""]


def _signal(text: str, rest: str) -> signal.Signals:
    name = rest.upper()
    try:
        number = signal.Signals(int(name)) if name.isdigit() else signal.Signals[f"SIG{name.removeprefix('SIG')}"]
    except (KeyError, ValueError):
        raise UsageError("bad-event", f"{text!r}: there is no signal {rest!r}") from None
    if number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGINT, signal.SIGCHLD):
        raise UsageError("bad-event", f"{text!r}: that signal cannot be waited for", "USR1 and USR2 are free")
    return number
