# SPDX-License-Identifier: LGPL-2.1-or-later
"""The stability of names that a program uses: DTrace's attributes, such as Evolving/Evolving/Common (the Guide,
Stability).

The first attribute is about the name, the second about the data behind it, the third about the machines on which it is
the same.
"""

from __future__ import annotations

from dataclasses import fields
from functools import reduce

from gilk.lang.d.probes import Description, is_glob
from gilk.values import dataclass

_STABILITY = ("Internal", "Private", "Obsolete", "External", "Unstable", "Evolving", "Stable", "Standard")
_CLASS = ("Unknown", "CPU", "Platform", "Group", "ISA", "Common")
#: The words that may follow "provider NAME" in #pragma D attributes.
PARTS = ("provider", "module", "function", "name", "args")


@dataclass(frozen=True, slots=True)
class Attributes:
    """Three attributes. Each is an index in _STABILITY or _CLASS, which begin with the least stable."""

    names: int
    data: int
    dependency: int

    def __str__(self) -> str:
        return "/".join(self.words)

    @property
    def words(self) -> tuple[str, str, str]:
        return _STABILITY[self.names], _STABILITY[self.data], _CLASS[self.dependency]

    def lowest(self, other: Attributes) -> Attributes:
        """The lower of both for each of the three attributes."""
        return Attributes(
            min(self.names, other.names), min(self.data, other.data), min(self.dependency, other.dependency)
        )

    def below(self, least: Attributes) -> bool:
        """Whether any of the three attributes is below that of ``least``."""
        return self.lowest(least) != least


def read(text: str) -> Attributes | None:
    """The attributes named in ``text``, in any case; None if a name is unknown."""
    words = text.lower().split("/")
    rows = (_STABILITY, _STABILITY, _CLASS)
    if len(words) != len(rows):
        return None
    found = [[name.lower() for name in row].index(word) for row, word in zip(rows, words, strict=True)
             if word in (name.lower() for name in row)]  # fmt: skip
    return Attributes(*found) if len(found) == len(rows) else None


def _known(text: str) -> Attributes:
    found = read(text)
    assert found is not None, text
    return found


#: The attributes of a name without a row of its own, the highest attributes, and those of names of the traced program.
USUAL, HIGHEST, OWN = map(_known, ("Stable/Stable/Common", "Standard/Standard/Common", "Private/Private/Unknown"))
_EVOLVING = _known("Evolving/Evolving/Common")
#: The attributes of D's own names that are not the usual ones.
NAMES = {
    **dict.fromkeys(("getmajor", "getminor", "htonl", "htonll", "htons", "ntohl", "ntohll", "ntohs"), _EVOLVING),
    "curthread": _known("Stable/Private/Common"),
}


@dataclass(frozen=True, slots=True)
class ProviderAttributes:
    """The attributes of a provider: one for each field of its probes' descriptions, and one for their arguments."""

    provider: Attributes
    module: Attributes
    function: Attributes
    name: Attributes
    args: Attributes

    def of(self, description: Description) -> Attributes:
        """The lowest attributes of those fields that name something; a glob does not."""
        rows = ((description.module, self.module), (description.function, self.function), (description.name, self.name))
        said = (attributes for field, attributes in rows if says(field))
        return reduce(Attributes.lowest, said, self.provider)


def says(field: str) -> bool:
    """Whether a field of a description names something: it is neither empty nor a glob."""
    return bool(field) and not is_glob(field)


def _provider(text: str) -> ProviderAttributes:
    return ProviderAttributes(*map(_known, text.split()))


#: The attributes of a description that fits any or many providers, and those of a provider without a row.
ANY = ProviderAttributes(*[_known("Unstable/Unstable/Common")] * len(fields(ProviderAttributes)))
NOBODYS = ProviderAttributes(*[OWN] * len(fields(ProviderAttributes)))
_PID = _provider(f"Evolving/Evolving/ISA {OWN} {OWN} Evolving/Evolving/ISA {OWN}")
_OF_TABLES = _provider(f"Evolving/Evolving/ISA {OWN} {OWN} Evolving/Evolving/ISA Evolving/Evolving/ISA")
_OF_FUNCTIONS = _provider(f"{_EVOLVING} {OWN} {OWN} {_EVOLVING} Private/Private/ISA")
_OF_EVENTS = _provider(f"Evolving/Evolving/ISA {OWN} {OWN} Private/Private/ISA Private/Private/ISA")
PROVIDERS = {
    "dtrace": _provider(f"{USUAL} {OWN} {OWN} {USUAL} {USUAL}"),
    "profile": _provider(f"{_EVOLVING} Unstable/Unstable/Unknown {OWN} {_EVOLVING} {_EVOLVING}"),
    "cpc": _provider(f"{_EVOLVING} Unstable/Unstable/Unknown {OWN} {_EVOLVING} {_EVOLVING}"),
    "syscall": _provider(f"{_EVOLVING} {OWN} Private/Private/ISA {_EVOLVING} Private/Private/ISA"),
    **dict.fromkeys(("fbt", "rawfbt"), _OF_FUNCTIONS),
    **dict.fromkeys(("rawtp", "sdt"), _OF_EVENTS),
    **dict.fromkeys(("proc", "sched", "io", "ip", "tcp", "udp", "sysinfo", "vminfo", "fsinfo", "lockstat"), _OF_TABLES),
}


def of_provider(field: str, defined: dict[str, ProviderAttributes]) -> ProviderAttributes:
    """The attributes of a provider. ``defined``: those of providers in a program's pragmas; a process's number may
    follow the names.
    """
    if not says(field):
        return ANY
    if field in PROVIDERS:
        return PROVIDERS[field]
    name = field.rstrip("0123456789")
    return defined.get(name) or (_PID if name == "pid" else NOBODYS)
