# SPDX-License-Identifier: LGPL-2.1-or-later
"""Merges rows of an aggregation that are one in print: those with addresses in one function, or in one module, also of
several processes, and those of several processors (the option aggpercpu).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from gilk.lang.data import Aggregation, Datum, Function, Kind
from gilk.values import dataclass

Cells = tuple[int, ...]
#: The address that stands for all addresses of a process with the same name, and the name, by the kind of name, the
#: process and one of them.
Stands = Callable[[Kind, int, int], tuple[int, bytes]]
_NAMES = (Kind.USYM, Kind.UMOD, Kind.SYM, Kind.MOD)
_WORD = 8  # bytes of an address, which is the last part of the datum, behind its process if it is not the kernel's
_64 = (1 << 64) - 1


@dataclass(slots=True)
class Merged:
    """A merged row. ``keys``: the keys as they were recorded. ``processors``: the cells of each processor, if they are
    known.
    """

    cells: Cells
    keys: list[bytes]
    processors: dict[int, Cells] = field(default_factory=dict)


def merged(aggregation: Aggregation, rows: Mapping[bytes, Cells], stands: Stands) -> dict[bytes, Merged]:
    """The merged rows, by the key that stands for them."""
    names = [datum for datum in aggregation.keys if datum.kind in _NAMES]
    processor = aggregation.processor
    if not names and processor is None:
        return {key: Merged(cells, [key]) for key, cells in rows.items()}
    found: dict[bytes, Merged] = {}
    first: dict[tuple[Kind, bytes], bytes] = {}
    for key, cells in rows.items():
        one = _key(key, names, stands, first)
        if processor is not None:
            one = bytes(processor.size) + one[processor.size :]
        known = found.get(one)
        if known is None:
            known = found[one] = Merged(cells, [key])
        else:
            known.cells = combined(aggregation.what.function, known.cells, cells)
            known.keys.append(key)
        if processor is not None:
            _count(known, int.from_bytes(key[: processor.size], "little"), aggregation.what.function, cells)
    return found


def _count(row: Merged, processor: int, function: Function, cells: Cells) -> None:
    before = row.processors.get(processor)
    row.processors[processor] = cells if before is None else combined(function, before, cells)


def idle(aggregation: Aggregation) -> Cells:
    """The cells of a processor that has counted nothing."""
    match aggregation.what.function:
        case Function.MIN:
            return ((1 << 63) - 1,)
        case Function.MAX:
            return (-1 << 63,)
    return (0,) * aggregation.what.cells


def _key(key: bytes, names: list[Datum], stands: Stands, first: dict[tuple[Kind, bytes], bytes]) -> bytes:
    """The key that stands for all those that are the same in print. ``first``: by kind and name, the first process and
    address that had it."""
    for datum in names:
        at, end = datum.offset, datum.offset + datum.size
        owner, address = key[at : end - _WORD], int.from_bytes(key[end - _WORD : end], "little")
        address, name = stands(datum.kind, int.from_bytes(owner, "little"), address)
        place = first.setdefault((datum.kind, name), owner + address.to_bytes(_WORD, "little"))
        key = key[:at] + place + key[end:]
    return key


def combined(function: Function, a: Cells, b: Cells) -> Cells:
    """The cells of both together; `Aggregating.cells` tells their number."""
    match function:
        case Function.MIN:
            return (min(a[0], b[0]),)
        case Function.MAX:
            return (max(a[0], b[0]),)
        case Function.STDDEV:
            square = sum((of[2] & _64) + ((of[3] & _64) << 64) for of in (a, b))
            return a[0] + b[0], a[1] + b[1], square & _64, square >> 64 & _64
    return tuple(x + y for x, y in zip(a, b, strict=True))
