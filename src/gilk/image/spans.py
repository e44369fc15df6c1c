# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes the functions of an image: disjoint extents of code with names, from symbols and, for stripped code,
from FDEs.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set

from gilk.image.extents import Extents
from gilk.image.model import ElfSymbol, FrameDescription, FunctionSpan, SymbolKind
from gilk.image.stripped import nameless

ALIGNMENT = 16  # of functions, in bytes
FUNCTIONS = (SymbolKind.FUNC, SymbolKind.IFUNC)


#: A symbol, and the table it was first found in.
Named = tuple[ElfSymbol, str]


def spans(
    named: Iterable[Named], frames: Iterable[FrameDescription], resolvers: Iterable[int], code: Extents
) -> tuple[FunctionSpan, ...]:
    """The functions, sorted and disjoint: an extent that reaches into the next function is cut there.

    ``code`` is where functions may be: executable sections or segments, without PLTs. ``resolvers`` are the addresses
    of IFUNC resolvers, which are functions even if nothing names them.
    """
    covered = _covered(frames, code)
    by_start = _by_start(named, covered, code)
    found = [_from_symbols(start, group, covered.get(start, 0)) for start, group in by_start.items()]
    found += [_from_frame(start, end) for start, end in _unnamed(covered, by_start)]
    known = {span.start for span in found}
    resolving = set(resolvers)
    found += [FunctionSpan(nameless(r), r, r, (), "eh_frame", local=True) for r in resolving - known if code.end_of(r)]
    found = [span._replace(ifunc=True) if span.start in resolving else span for span in found]
    firm = {start for start, group in by_start.items() if any(symbol.kind in FUNCTIONS for symbol, _ in group)}
    return _disjoint(sorted(found, key=lambda span: span.start), firm, covered, code)


def _covered(frames: Iterable[FrameDescription], code: Extents) -> dict[int, int]:
    """The end of each FDE's code, by its start.

    The code of a signal trampoline begins a byte behind the start of its FDE, which begins early so that unwinders,
    which look up the byte before a return address, find it (glibc, sysdeps/unix/sysv/linux/x86_64/libc_sigaction.c).
    """
    extents: dict[int, int] = {}
    for frame in frames:
        start = frame.start + frame.signal
        end = min(frame.end, code.end_of(start))
        if end > start:
            extents[start] = max(end, extents.get(start, 0))
    return extents


def _by_start(named: Iterable[Named], covered: Mapping[int, int], code: Extents) -> dict[int, list[Named]]:
    """The symbols that make a function, by address: those of functions, and labels that an FDE confirms."""
    groups: dict[int, list[Named]] = defaultdict(list)
    for entry in named:
        symbol, _ = entry
        label = symbol.kind is SymbolKind.NOTYPE and symbol.address in covered
        if (symbol.kind in FUNCTIONS or label) and code.end_of(symbol.address):
            groups[symbol.address].append(entry)
    return groups


def _rank(entry: Named) -> tuple[bool, bool, bool, bool, int, int, str]:
    """The sort key of a name: the name that a user would use is the smallest."""
    symbol, _ = entry
    underscores = len(symbol.name) - len(symbol.name.lstrip("_"))
    label = symbol.kind is SymbolKind.NOTYPE
    return not symbol.exported, symbol.local, label, "@" in symbol.name, underscores, len(symbol.name), symbol.name


def _from_symbols(start: int, group: list[Named], covered: int) -> FunctionSpan:
    """The span of one function, made from all symbols at its start. It ends at ``start`` if neither a symbol nor an FDE
    tells its end.
    """
    if len(group) > 1:
        group = sorted(group, key=_rank)
    sized, source = max(group, key=_size)
    size = sized.size
    end = start + size if size else covered
    symbols = [symbol for symbol, _ in group]
    name, *aliases = dict.fromkeys([symbol.name for symbol in symbols])
    return FunctionSpan(
        name=name,
        start=start,
        end=max(end, start),
        aliases=tuple(aliases),
        source=source if size or not covered else "eh_frame",
        ifunc=SymbolKind.IFUNC in [symbol.kind for symbol in symbols],
        exported=True in [symbol.exported for symbol in symbols],
        local=False not in [symbol.local for symbol in symbols],
    )


def _size(entry: Named) -> int:
    return entry[0].size


def _unnamed(covered: Mapping[int, int], by_start: Iterable[int]) -> list[tuple[int, int]]:
    """The extents of FDEs that no symbol names.

    In assembly an FDE may begin before the alignment of the function that it is for (glibc's TLS descriptor functions):
    such padding is no function.
    """
    starts = sorted(by_start)
    found = []
    for start, end in covered.items():
        i = bisect.bisect_left(starts, start)
        following = starts[i] if i < len(starts) else end
        if following != start and following - start >= min(ALIGNMENT, end - start):
            found.append((start, end))
    return found


def _from_frame(start: int, end: int) -> FunctionSpan:
    return FunctionSpan(nameless(start), start, end, (), "eh_frame", local=True)


def _disjoint(
    found: list[FunctionSpan], firm: Set[int], covered: Mapping[int, int], code: Extents
) -> tuple[FunctionSpan, ...]:
    """The spans without those that lie inside another function and are none themselves, cut or extended to the next
    start.

    ``firm`` are the starts at which a symbol says that there is a function, not just a label or an FDE.
    """
    kept: list[FunctionSpan] = []
    reach = 0  # the end of the outermost firm function so far
    for span in found:
        own = span.start in firm and (span.start in covered or span.end > reach)
        if span.start < reach and not own:  # a second entry to a function, or a piece of its unwind information
            continue
        kept.append(span)
        if span.start in firm:
            reach = max(reach, span.end)
    limits = [span.start for span in kept[1:]] + [1 << 65]
    cut = (_cut(span, limit, code) for span, limit in zip(kept, limits, strict=False))
    return tuple(span for span in cut if span.end > span.start)


def _cut(span: FunctionSpan, limit: int, code: Extents) -> FunctionSpan:
    end = min(span.end if span.end > span.start else limit, limit, code.end_of(span.start))
    return span if end == span.end else span._replace(end=end)
