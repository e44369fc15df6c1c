# SPDX-License-Identifier: LGPL-2.1-or-later
"""The events of a kernel's tracefs: their numbers, and the fields of their records, from the files ``format``."""

from __future__ import annotations

import re

from gilk.errors import TargetError
from gilk.providers.kernel.probe import ReadsFiles
from gilk.values import dataclass

_LIST = "/sys/kernel/tracing/available_events"  # lines GROUP:NAME
_PLACE = "/sys/kernel/tracing/events/{}/format"
_FIELD = re.compile(r"^\tfield:([^;]+);\toffset:(\d+);\tsize:(\d+);\tsigned:([01]);", re.MULTILINE)
_DECLARED = re.compile(r"(__data_loc |__rel_data_loc |)(.*?)(\w+)((?:\[[^\]]*\])*)\Z")
_COMMON = "common_"  # prefix of the fields that all events have
_QUALIFIERS = frozenset(("const", "volatile", "restrict", "__user", "__kernel"))
_VALUES = (1, 2, 4, 8)  # sizes of fields that are numbers


@dataclass(frozen=True, slots=True)
class EventField:
    """A field of an event's record. ``type``: in C, that of an element if there are several. ``size``: bytes in the
    record, from ``offset`` on. ``address``: in D, where the field is if ``arg0`` is the record's address; "" if the
    field is a number."""

    name: str
    type: str
    offset: int
    size: int
    signed: bool
    address: str = ""

    @property
    def number(self) -> str:
        """The name in D of the number's type by its size."""
        return f"{'' if self.signed else 'u'}int{8 * self.size}_t"

    @property
    def value(self) -> str:
        """The field in D, if ``arg0`` is the address of the record: the number, or the address of anything else."""
        return self.address or f"*({self.number} *)(arg0 + {self.offset})"


@dataclass(frozen=True, slots=True)
class EventFormat:
    """An event. ``number``: of perf_event_open(2). ``fields``: those that it has beside the fields of all events."""

    number: int
    fields: tuple[EventField, ...]


def listed(link: ReadsFiles) -> list[tuple[str, str]]:
    """The group and the name of each event; [] if the kernel's tracefs is not mounted."""
    try:
        lines = link.read_file(_LIST).decode(errors="replace").split()
    except (OSError, TargetError):
        return []
    return [(group, name) for group, _, name in (line.partition(":") for line in lines)]


def event_format(link: ReadsFiles, event: str) -> EventFormat | None:
    """The format of the event ``GROUP/NAME``; None if the kernel does not tell."""
    try:
        text = link.read_file(_PLACE.format(event)).decode(errors="replace")
    except (OSError, TargetError):
        return None
    number = re.search(r"^ID: (\d+)$", text, re.MULTILINE)
    rows = (_field(*row) for row in _FIELD.findall(text))
    fields = tuple(row for row in rows if not row.name.startswith(_COMMON))
    return None if number is None else EventFormat(int(number[1]), fields)


def _field(declared: str, offset: str, size: str, signed: str) -> EventField:
    place, words, name, sizes = _DECLARED.fullmatch(declared.strip()).groups()  # type: ignore[union-attr]
    words = words.replace("[]", "").replace("*", " * ")
    type_ = " ".join(word for word in words.split() if word not in _QUALIFIERS)
    many = bool(sizes) or int(size) not in _VALUES
    address = _address(place.strip(), int(offset)) if place else f"arg0 + {offset}" if many else ""
    return EventField(name, type_, int(offset), int(size), signed == "1", address)


def _address(place: str, offset: int) -> str:
    """The address of a field of any length: its place behind the record's start, or behind the word that says so."""
    behind = f"(*(uint32_t *)(arg0 + {offset}) & 0xffff)"
    return f"arg0 + {behind}" if place == "__data_loc" else f"arg0 + {offset + 4} + {behind}"
