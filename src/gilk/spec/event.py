# SPDX-License-Identifier: LGPL-2.1-or-later
"""The events at which a trace starts and stops, as users write them."""

from __future__ import annotations

import signal

from gilk.errors import UsageError
from gilk.spec import duration, functions
from gilk.spec.functions import FunctionPattern
from gilk.values import dataclass

_WORDS = "now, call:FUNCTION[:N], return:FUNCTION[:N], after:2s, for:200ms, signal:USR2, key:alt-f, exit"


@dataclass(frozen=True)
class Event:
    """An event. ``text`` is what the user wrote."""

    text: str


@dataclass(frozen=True)
class Now(Event):
    """The event that comes at once."""


@dataclass(frozen=True)
class Exit(Event):
    """The event that comes when the program ends; a trace lasts until then, or until Ctrl-C."""


@dataclass(frozen=True)
class Reach(Event):
    """The event that control gets for the ``hits``-th time to ``where`` (``entry`` or ``return``) of a function.

    Without an image, the function is looked for in the main program first, then in the libraries.
    """

    function: FunctionPattern
    where: str
    hits: int


@dataclass(frozen=True)
class Elapsed(Event):
    """The event that comes ``seconds`` after the program was attached to or launched; or if ``since_start``, after the
    trace began.
    """

    seconds: float
    since_start: bool


@dataclass(frozen=True)
class Signal(Event):
    """The event that gilk itself is sent a signal."""

    number: signal.Signals


@dataclass(frozen=True)
class Key(Event):
    """The event that a combination of keys is pressed on a keyboard of this machine; the last one pressed is
    ``keys[-1]``.
    """

    keys: tuple[str, ...]


def parse(text: str) -> Event:
    """The event that ``text`` names. Raises UsageError `bad-event`."""
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


def check_of_kernel(found: Event) -> None:
    """Check that a trace of a watched kernel can begin or end at the event. Raises UsageError `bad-event`."""
    if isinstance(found, Reach):
        what = f"{found.text}: a trace of a kernel begins and ends at a time, or with its command"
        raise UsageError("bad-event", what, "now, after:2s, for:2s or exit")


def _reach(text: str, word: str, rest: str) -> Reach:
    name, _, count = rest.rpartition(":")
    if not name or not count.isdecimal():
        name, count = rest, "1"
    image, function = functions.split(name) or ("", "")
    if not function:
        raise UsageError("bad-event", f"{text!r}: {name!r} is not a function", f"an event is one of {_WORDS}")
    if not int(count):
        raise UsageError("bad-event", f"{text!r}: the number of a call is 1 or more")
    return Reach(text, FunctionPattern(image, function), "entry" if word == "call" else "return", int(count))


def _seconds(text: str, rest: str) -> float:
    found = duration.seconds(rest)
    if found is None:
        raise UsageError("bad-event", f"{text!r}: {rest!r} is not a time", "for example 2s, 200ms or 1.5min")
    return found


def _signal(text: str, rest: str) -> signal.Signals:
    name = rest.upper()
    try:
        number = signal.Signals(int(name)) if name.isdigit() else signal.Signals[f"SIG{name.removeprefix('SIG')}"]
    except (KeyError, ValueError):
        raise UsageError("bad-event", f"{text!r}: there is no signal {rest!r}") from None
    if number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGINT, signal.SIGCHLD):
        raise UsageError("bad-event", f"{text!r}: that signal cannot be waited for", "USR1 and USR2 are free")
    return number
