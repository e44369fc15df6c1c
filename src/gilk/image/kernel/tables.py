# SPDX-License-Identifier: LGPL-2.1-or-later
"""The tables in which the kernel lists single instructions. Each address in them is relative to its own field."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gilk.image.kernel.kallsyms import Addresses
from gilk.image.kernel.snapshot import TextRegion
from gilk.values import dataclass

_EXCEPTION: Final = np.dtype([("insn", "<i4"), ("fixup", "<i4"), ("data", "<i4")])
_JUMP: Final = np.dtype([("code", "<i4"), ("target", "<i4"), ("key", "<i8")])
_BUG: Final = np.dtype([("address", "<i4"), ("file", "<i4"), ("line", "<u2"), ("flags", "<u2")])
_STATIC_CALL: Final = np.dtype([("address", "<i4"), ("key", "<i4")])
_WARNING: Final = 1  # BUGFLAG_WARNING
_KEY_FLAGS: Final = np.uint64(3)  # STATIC_CALL_SITE_FLAGS: a tail call, an init site


@dataclass(frozen=True)
class Pairs:
    """Addresses of instructions, and for each another one: where it may lead, or what it belongs to."""

    sites: Addresses
    others: Addresses


def exceptions(table: TextRegion) -> Pairs:
    """The instructions that may fault, and the addresses at which the kernel then goes on."""
    rows = _rows(table, _EXCEPTION)
    return Pairs(_absolute(table, rows, "insn"), _absolute(table, rows, "fixup"))


def static_keys(table: TextRegion) -> Pairs:
    """The instructions that are jumps while a static key is on, or off, and the targets of those jumps."""
    rows = _rows(table, _JUMP)
    return Pairs(_absolute(table, rows, "code"), _absolute(table, rows, "target"))


def bugs(table: TextRegion) -> tuple[Addresses, NDArray[np.bool_]]:
    """The addresses of the traps of BUG and WARN, and whether control goes on behind each."""
    rows = _rows(table, _BUG)
    return _absolute(table, rows, "address"), (rows["flags"] & _WARNING).astype(np.bool_)


def static_calls(table: TextRegion) -> Pairs:
    """The addresses of static call sites, and those of their keys (struct static_call_key)."""
    rows = _rows(table, _STATIC_CALL)
    return Pairs(_absolute(table, rows, "address"), _absolute(table, rows, "key") & ~_KEY_FLAGS)


def _rows(table: TextRegion, entry: np.dtype[Any]) -> NDArray[Any]:
    return np.frombuffer(table.data, entry, len(table.data) // entry.itemsize)


def _absolute(table: TextRegion, rows: NDArray[Any], field: str) -> Addresses:
    entry = rows.dtype
    assert entry.fields is not None
    origin = np.uint64(table.address + entry.fields[field][1])
    places = origin + np.arange(len(rows), dtype=np.uint64) * np.uint64(entry.itemsize)
    return places + rows[field].astype(np.int64).view(np.uint64)
