# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads ``struct module``, which tells where a loaded module's code and tables are. The kernel's own BTF has its
layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gilk.errors import ImageError
from gilk.image.kernel.btf import Btf, TypeKind
from gilk.image.kernel.declarations import MemberPlace, place, size_of
from gilk.values import dataclass

_LIVE: Final = 0  # MODULE_STATE_LIVE
_FIELDS: Final = (
    "state", "name", "core_layout.base", "core_layout.text_size", "core_layout.ro_size",
    "extable", "num_exentries", "jump_entries", "num_jump_entries", "bug_table", "num_bugs",
    "static_call_sites", "num_static_call_sites",
)  # fmt: skip
#: The sizes in bytes that the elements of the tables must have for gilk to read them.
ENTRIES: Final = {"exception_table_entry": 12, "jump_entry": 16, "bug_entry": 12, "static_call_site": 8}


@dataclass(frozen=True, slots=True)
class Module:
    """A loaded module. Its text, its constants and each table are (address, size in bytes)."""

    name: str
    text: tuple[int, int]
    constants: tuple[int, int]
    exceptions: tuple[int, int]
    jumps: tuple[int, int]
    bugs: tuple[int, int]
    static_calls: tuple[int, int]


@dataclass(frozen=True)
class ModuleLayout:
    """The layout of struct module: its ``size`` in bytes, and the places of the members that are read."""

    size: int
    places: Mapping[str, MemberPlace]

    @classmethod
    def of(cls, btf: Btf) -> ModuleLayout:
        """The layout in this kernel. Raises ImageError `kernel-layout` if its modules are not like those that gilk
        knows.
        """
        found = btf.find("module", TypeKind.STRUCT)
        places = {name: at for name in _FIELDS if (at := place(btf, "module", name)) is not None}
        missing = [name for name in _FIELDS if name not in places]
        if found is None or missing:
            raise ImageError("kernel-layout", f"this kernel's struct module has no {', '.join(missing[:3]) or 'BTF'}")
        return cls(size_of(btf, found.number), places)

    def read(self, data: bytes) -> Module | None:
        """The module that the bytes of a struct module describe; None for one that is being loaded or unloaded."""
        if self._number(data, "state") != _LIVE:
            return None
        at = self.places["name"]
        base, text = self._number(data, "core_layout.base"), self._number(data, "core_layout.text_size")
        return Module(
            data[at.offset : at.offset + at.size].partition(b"\0")[0].decode(errors="replace"),
            (base, text),
            (base + text, max(self._number(data, "core_layout.ro_size") - text, 0)),
            self._table(data, "extable", "num_exentries", "exception_table_entry"),
            self._table(data, "jump_entries", "num_jump_entries", "jump_entry"),
            self._table(data, "bug_table", "num_bugs", "bug_entry"),
            self._table(data, "static_call_sites", "num_static_call_sites", "static_call_site"),
        )

    def _number(self, data: bytes, field: str) -> int:
        at = self.places[field]
        return int.from_bytes(data[at.offset : at.offset + at.size], "little")

    def _table(self, data: bytes, field: str, count: str, entry: str) -> tuple[int, int]:
        return self._number(data, field), self._number(data, count) * ENTRIES[entry]


def check_entries(btf: Btf) -> None:
    """Check the sizes of the elements of this kernel's tables. Raises ImageError `kernel-layout` if they differ from
    ENTRIES.
    """
    for name, expected in ENTRIES.items():
        found = btf.find(name, TypeKind.STRUCT)
        size = size_of(btf, found.number) if found else 0
        if size != expected:
            raise ImageError("kernel-layout", f"this kernel's struct {name} has {size} bytes, not {expected}")
