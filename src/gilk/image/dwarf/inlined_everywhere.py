# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds the functions that have no code of their own, because they are inlined wherever they are called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gilk.image.dwarf.entries import AT_ORIGIN, DebugEntry, Entries
from gilk.image.dwarf.forms import Reference
from gilk.image.dwarf.inlined import names
from gilk.image.dwarf.kept import as_json, from_json, kept, text
from gilk.image.dwarf.ranges import LOW_PC, RANGES
from gilk.values import dataclass

_TAG_FUNCTION, _TAG_NAMESPACE = 0x2E, 0x39
_INLINE = 0x20
_INLINED = (1, 3)  # DW_INL_inlined, DW_INL_declared_inlined
_MOST_ENTRIES = 100_000  # the most entries read; that takes a second
_DEEPEST = 8  # the most namespaces in each other


@dataclass(frozen=True, slots=True)
class InlinedEverywhere:
    """The names of such functions, sorted: of symbols, where the debug information has them. ``complete`` is False if
    there may be more."""

    names: tuple[str, ...] = ()
    complete: bool = True


def inlined_everywhere(entries: Entries) -> InlinedEverywhere:
    """The functions of an image. They are kept in the cache. Raises ImageError."""

    def make() -> InlinedEverywhere:
        return _read(entries)

    return kept("inlined everywhere", entries.sections.of_entries, make, _to_bytes, _from_bytes)


def _to_bytes(found: InlinedEverywhere) -> bytes:
    return as_json([found.names, found.complete])


def _from_bytes(content: bytes) -> InlinedEverywhere:
    """Raises ValueError and its like."""
    words, complete = from_json(content)
    return InlinedEverywhere(tuple(map(text, words)), bool(complete))


def _read(entries: Entries) -> InlinedEverywhere:
    inlined, whole = dict[int, tuple[str, ...]](), set[str]()
    budget = _MOST_ENTRIES
    for entry in _functions(entries):
        budget -= 1
        if not budget:
            break
        if entry.tag != _TAG_FUNCTION:
            continue
        if entry.number(_INLINE) in _INLINED:
            inlined[entry.offset] = tuple(names(entry))
        elif LOW_PC in entry.attributes or RANGES in entry.attributes:
            whole.update(names(entry))
            inlined.pop(_origin(entry), None)
    called = {each[0] for each in inlined.values() if each and whole.isdisjoint(each)}
    return InlinedEverywhere(tuple(sorted(called)), budget > 0)


def _origin(entry: DebugEntry) -> int:
    """The offset of the entry that this one is an instance of; -1 if it is of none."""
    origin: Any = entry.attributes.get(AT_ORIGIN)
    return origin.offset if isinstance(origin, Reference) and not origin.shared else -1


def _functions(entries: Entries) -> Iterator[DebugEntry]:
    """The entries outside of functions and types, in order."""
    for unit in entries.units:
        waiting = [(entries.top(unit), 0)]
        while waiting:
            children, depth = waiting[-1]
            entry = next(children, None)
            if entry is None:
                waiting.pop()
                continue
            yield entry
            if entry.tag == _TAG_NAMESPACE and depth < _DEEPEST:
                waiting.append((entries.children(entry), depth + 1))
