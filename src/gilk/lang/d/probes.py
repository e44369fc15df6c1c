# SPDX-License-Identifier: LGPL-2.1-or-later
"""Probes and their descriptions: ``provider:module:function:name``."""

from __future__ import annotations

import fnmatch
import re

from gilk.values import dataclass

_GLOB = re.compile(r"[*?\[\]!\\]")
_FIELDS = 4
#: How many probes dtrace has of its own; they are the first.
OWN = 3
#: How many numbers are left out behind them where no probes of a kernel are numbered, as DTrace numbers those before
#: others: scripts take columns of five digits for granted.
LEFT_OUT = 10_000 - OWN
#: Provider, module, function, name.
Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class DProbe:
    """A probe. ``number`` is its id: BEGIN, END and ERROR are 1 to 3, others as enabling.py numbers them."""

    number: int
    provider: str
    module: str
    function: str
    name: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.module}:{self.function}:{self.name}"


@dataclass(frozen=True, slots=True)
class Description:
    """A description. Each field is a shell glob; an empty field matches everything. ``number``: if not 0, only the
    probe with this id matches.
    """

    provider: str
    module: str
    function: str
    name: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.provider}:{self.module}:{self.function}:{self.name}"

    def matches(self, probe: DProbe) -> bool:
        if self.number:
            return probe.number == self.number
        fields = (probe.provider, probe.module, probe.function, probe.name)
        globs = (self.provider, self.module, self.function, self.name)
        return all(not glob or fnmatch.fnmatchcase(field, glob) for field, glob in zip(fields, globs, strict=True))


def is_overspecified(text: str) -> bool:
    """Whether there are more colons than the fields and the names of C++ functions need."""
    return len(text.split(":")) > _FIELDS and (":" in described(text).function.replace("::", ""))


def is_glob(field: str) -> bool:
    return bool(_GLOB.search(field))


def fires_alone(text: str) -> bool:
    """Whether no process fires the probes of that description, because they are gilk's own or those of a clock."""
    found = described(text)
    if found.provider not in ("", "dtrace", "profile") or found.module or found.function:
        return False
    return found.name in ("BEGIN", "END", "ERROR") or found.name.startswith("tick-")


def described(text: str) -> Description:
    """The description that ``text`` means. Fields are filled from the right: ``BEGIN`` is a name, ``malloc:entry`` a
    function and a name. If there are more than four, the pairs of colons in the middle belong to the function, as in
    ``pid1:a.out:ns::f:entry``.
    """
    fields = text.split(":")
    if len(fields) > _FIELDS:
        fields = [*fields[:2], ":".join(fields[2:-1]), fields[-1]]
    provider, module, function, name = [""] * (_FIELDS - len(fields)) + fields
    return Description(provider, module, function, name, int(text) if text.isdigit() else 0)
