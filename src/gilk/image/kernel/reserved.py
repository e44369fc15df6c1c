# SPDX-License-Identifier: LGPL-2.1-or-later
"""The parts of a kernel's code that must not be changed: ranges, each with the name of a refusal."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gilk.image.kernel import foreign, tables
from gilk.image.kernel.denied import is_denied
from gilk.image.kernel.kallsyms import Addresses, KernelSymbols
from gilk.image.kernel.snapshot import KernelPart, KernelSnapshot
from gilk.image.kernel.sweep import Sweep
from gilk.image.model import FunctionSpan

Range = tuple[int, int, str]  # start, end, refusal

FENTRY_SIZE: Final = 5
_BUG_SIZE: Final = 2  # ud2
_BRANCH_SIZE: Final = 5  # the bytes that the kernel writes over a static call's site, also where there is a ret now
#: The symbols at the start and end of sections that are reserved, with the refusal.
_SECTIONS: Final = (
    ("__cpuidle_text_start", "__cpuidle_text_end", "idle"),
    ("__noinstr_text_start", "__noinstr_text_end", "blacklisted"),
    ("__entry_text_start", "__entry_text_end", "blacklisted"),
    ("__static_call_text_start", "__static_call_text_end", "thunk"),
    ("__indirect_thunk_start", "__indirect_thunk_end", "thunk"),
)


def ranges(
    snapshot: KernelSnapshot, sweep: Sweep, spans: tuple[FunctionSpan, ...], fentries: Addresses
) -> tuple[Range, ...]:
    """The reserved ranges, sorted by address. They may overlap; the reason that counts comes first. ``spans`` and
    ``fentries`` must be sorted.
    """
    found: list[Range] = [*_sections(snapshot.symbols), *_blacklisted(snapshot), *_blacklisted_parts(snapshot, spans)]
    found += _functions(snapshot, sweep, spans)
    for part in snapshot.parts:
        found += _sites(part, sweep)
    found += [(site, site + FENTRY_SIZE, "ftrace") for site in fentries.tolist()]
    return tuple(sorted(found, key=_start))


def _start(found: Range) -> int:
    return found[0]


def _sections(symbols: KernelSymbols) -> Iterator[Range]:
    for low, high, reason in _SECTIONS:
        start, end = symbols.find(low), symbols.find(high)
        if start is not None and end is not None and start < end:
            yield start, end, reason


def _blacklisted(snapshot: KernelSnapshot) -> Iterator[Range]:
    return ((start, end, "blacklisted") for start, end in snapshot.blacklist if start < end)


def _blacklisted_parts(snapshot: KernelSnapshot, spans: tuple[FunctionSpan, ...]) -> Iterator[Range]:
    """The ranges of parts that the compiler has split off: the kernel forbids `foo.cold` together with `foo`, but its
    list does not have it.
    """
    starts = [start for start, _ in snapshot.blacklist]
    for span in spans:
        for base in {name.partition(".")[0] for name in (span.name, *span.aliases) if "." in name}:
            address = snapshot.symbols.find(base)
            row = bisect.bisect_right(starts, address) - 1 if address is not None else -1
            if address is not None and row >= 0 and address < snapshot.blacklist[row][1]:
                yield span.start, span.end, "blacklisted"


def _functions(snapshot: KernelSnapshot, sweep: Sweep, spans: tuple[FunctionSpan, ...]) -> Iterator[Range]:
    """The ranges of whole functions: those that is_denied() names, and those in which another tool has a probe or a
    splice.
    """
    starts = np.array([span.start for span in spans], np.uint64)
    for span, owner in zip(spans, owners(snapshot.parts, starts), strict=True):
        if is_denied((span.name, *span.aliases), owner):
            yield span.start, span.end, "unsafe"
    ends = np.array([span.end for span in spans], np.uint64)
    signs = foreign.patched(sweep, snapshot.parts, snapshot.symbols)
    for places, reason in ((_u64(snapshot.probes), "probed"), (signs, "taken")):
        rows = np.searchsorted(starts, places, "right") - 1
        inside = (rows >= 0) & (places < ends[rows])
        for row in np.unique(rows[inside]).tolist():
            yield spans[row].start, spans[row].end, reason


def owners(parts: Iterable[KernelPart], addresses: Addresses) -> list[str]:
    """The module whose text contains each address; '' if that is the kernel's text or none."""
    found = sorted((part.text.address, part.text.end, part.owner) for part in parts)
    starts, ends = (np.array([each[i] for each in found], np.uint64) for i in (0, 1))
    rows = np.searchsorted(starts, addresses, "right") - 1
    rows[(rows >= 0) & (addresses >= ends[rows])] = -1
    return [found[row][2] if row >= 0 else "" for row in rows.tolist()]


def _sites(part: KernelPart, sweep: Sweep) -> Iterator[Range]:
    """The ranges of single instructions that the kernel knows by their addresses."""
    known = part.tables
    yield from _whole(tables.exceptions(known.exceptions).sites, part, sweep, "faults", 1)
    yield from _whole(tables.static_keys(known.jumps).sites, part, sweep, "static-key", 2)
    yield from _whole(tables.static_calls(known.static_calls).sites, part, sweep, "static-call", _BRANCH_SIZE)
    yield from _whole(tables.bugs(known.bugs)[0], part, sweep, "bug", _BUG_SIZE)


def _whole(sites: Addresses, part: KernelPart, sweep: Sweep, reason: str, least: int) -> Iterator[Range]:
    """The range of each site's whole instruction, at least ``least`` bytes. Sites in code that was freed are
    left out.
    """
    sites = np.unique(inside(sites, part))
    rows = sweep.row(sites)
    lengths = np.maximum(np.where(rows >= 0, sweep.lengths[rows], 1), least)
    return ((site, site + size, reason) for site, size in zip(sites.tolist(), lengths.tolist(), strict=True))


def inside(addresses: Addresses, part: KernelPart) -> Addresses:
    """The addresses that lie in the text of a part."""
    return addresses[_within(addresses, part)]


def _within(addresses: Addresses, part: KernelPart) -> NDArray[np.bool_]:
    text = part.text
    return (addresses >= np.uint64(text.address)) & (addresses < np.uint64(text.end))


def _u64(values: tuple[int, ...]) -> Addresses:
    return np.array(values, np.uint64)
