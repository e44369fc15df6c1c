# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions of a kernel: kallsyms tells where each begins, and the bytes tell where it ends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from gilk.image.kernel.kallsyms import Addresses, KernelSymbols
from gilk.image.kernel.snapshot import TextRegion
from gilk.image.kernel.sweep import Sweep
from gilk.image.model import FunctionSpan
from gilk.values import dataclass

SOURCE: Final = "kallsyms"
#: Symbols that mark borders and no code: _stext, __entry_text_start, __indirect_thunk_end, __x86_indirect_thunk_array.
_BORDER: Final = re.compile(r"_(s|e)?text\Z|__\w+_text_(start|end)\Z|__\w+_thunk_(start|end|array)\Z")
#: Second names that every module gives to its init and exit functions.
_COMMON: Final = frozenset({"init_module", "cleanup_module"})


@dataclass(frozen=True, slots=True)
class Head:
    """An address of code that has names, the best one first. ``local``: none of the names is global."""

    address: int
    names: tuple[str, ...]
    local: bool


def is_border(name: str) -> bool:
    return _BORDER.match(name) is not None


def heads(symbols: KernelSymbols, texts: Iterable[TextRegion]) -> list[Head]:
    """The heads of all functions in ``texts``, by address; symbols that only mark borders are left out."""
    groups: dict[int, list[tuple[str, str]]] = {}
    for address, kind, name, _ in symbols.text():
        if not is_border(name):
            groups.setdefault(address, []).append((kind, name))
    found = sorted(groups.items())
    addresses = np.array([address for address, _ in found], np.uint64)
    inside = np.zeros(len(found), np.bool_)
    for text in texts:
        low, high = np.searchsorted(addresses, np.array([text.address, text.end], np.uint64))
        inside[low:high] = True
    return [_head(address, group) for (address, group), keep in zip(found, inside.tolist(), strict=True) if keep]


def _head(address: int, group: list[tuple[str, str]]) -> Head:
    if len(group) > 1:
        group.sort(key=_rank)
    return Head(address, tuple(dict.fromkeys(name for _, name in group)), all(kind in "tw" for kind, _ in group))


def _rank(entry: tuple[str, str]) -> tuple[bool, bool, int, int, str]:
    """The sort key of a name: the name that a user would use is the smallest."""
    kind, name = entry
    return name in _COMMON, kind not in "TW", len(name) - len(name.lstrip("_")), len(name), name


def spans(found: list[Head], sweep: Sweep, limits: Addresses, entered: frozenset[int]) -> Iterator[FunctionSpan]:
    """The span of each function: up to the next one, or to the next of ``limits``, without the padding behind its last
    instruction.

    ``entered`` are functions that callers know only by the calling convention.
    """
    starts = np.array([head.address for head in found], np.uint64)
    borders = np.union1d(starts, limits)
    ends = borders[np.searchsorted(borders, starts, side="right")]
    for head, end in zip(found, _trimmed(starts, ends, sweep).tolist(), strict=True):
        start, names = head.address, head.names
        if end > start:
            yield FunctionSpan(names[0], start, end, names[1:], SOURCE, False, start in entered, head.local)


def _trimmed(starts: Addresses, ends: Addresses, sweep: Sweep) -> Addresses:
    """The ends of the last instructions before ``ends`` that are not padding; the start if there is none."""
    rows = np.arange(1, len(sweep.starts) + 1)
    rows[sweep.padding] = 0
    last = np.concatenate(([0], np.maximum.accumulate(rows)))[np.searchsorted(sweep.starts, ends)]
    trimmed = np.concatenate((np.zeros(1, np.uint64), sweep.ends))[last]
    return np.maximum(np.minimum(trimmed, ends), starts)
