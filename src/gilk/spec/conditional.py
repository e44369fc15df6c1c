# SPDX-License-Identifier: LGPL-2.1-or-later
"""Points under a condition, ``POINTS/CONDITION/``, and points by name: ``usdt:PROVIDER:NAME``, ``syscall:NAME``."""

from __future__ import annotations

import re

from gilk.errors import UsageError
from gilk.spec import point
from gilk.spec.point import Spec
from gilk.values import dataclass

_NAMED = re.compile(r"(?P<kind>usdt|syscall):")
_USDT = re.compile(r"usdt:(?P<provider>[^:/]+):(?P<name>[^:/]+)")
_SYSCALL = re.compile(r"syscall:(?P<name>[^:/]+)(?::(?P<side>entry|return))?")


@dataclass(frozen=True, slots=True)
class NamedPoint:
    """Markers in programs and libraries (``usdt``), or system calls (``syscall``).

    ``provider`` and ``name`` are shell globs; the provider of system calls is ''. ``side`` is entry or return, and ''
    for markers, which have no end.
    """

    kind: str
    provider: str
    name: str
    side: str = ""

    def __str__(self) -> str:
        return f"usdt:{self.provider}:{self.name}" if self.kind == "usdt" else f"syscall:{self.name}:{self.side}"


@dataclass(frozen=True, slots=True)
class ConditionalPoint:
    """Points and a condition. ``condition`` is an expression of D; '' if there is none."""

    where: Spec | NamedPoint
    condition: str = ""


def parse(text: str) -> ConditionalPoint:
    """The points in ``POINTS``, or in ``POINTS/CONDITION/``: the shortest beginning that is POINTS counts, since paths
    have slashes, too.

    Raises UsageError `bad-point`, `bad-condition`.
    """
    if not text.endswith("/"):
        return ConditionalPoint(_where(text))
    for found in re.finditer("/", text[:-1]):
        try:
            where = _where(text[: found.start()])
        except UsageError:
            continue
        condition = text[found.end() : -1].strip()
        if not condition:
            raise UsageError("bad-condition", f"{text!r} has no condition", "for example 'main:entry/arg0 > 4096/'")
        return ConditionalPoint(where, condition)
    return ConditionalPoint(_where(text))


def _where(text: str) -> Spec | NamedPoint:
    """The points without a condition. Raises UsageError `bad-point`."""
    named = _NAMED.match(text)
    if named is None:
        return point.parse(text)
    usdt, syscall = _USDT.fullmatch(text), _SYSCALL.fullmatch(text)
    if usdt is not None:
        return NamedPoint("usdt", usdt["provider"], usdt["name"])
    if syscall is not None:
        return NamedPoint("syscall", "", syscall["name"], syscall["side"] or "entry")
    what = "usdt:PROVIDER:NAME" if named["kind"] == "usdt" else "syscall:NAME, or syscall:NAME:return"
    raise UsageError("bad-point", f"{text!r} is not {what}", "an image of that name is meant by its path")
