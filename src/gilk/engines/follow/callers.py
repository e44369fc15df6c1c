# SPDX-License-Identifier: LGPL-2.1-or-later
"""The direct callers of functions of an image, found without analysing all of it.

The displacement of a direct call or jump is in its last four bytes. So any four bytes of code that lead to one of the
functions are looked for first, all at once; only functions that contain some are analysed, to see whether these are
calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import Function
from gilk.image.model import Image

_AT_ONCE = 1 << 22  # bytes looked through at a time, to bound the memory that this takes


def callers(analysis: Analysis, starts: set[int]) -> dict[int, tuple[str, ...]]:
    """The names of the other functions that call or jump to each function, by its link-time start."""
    found: dict[int, dict[str, None]] = defaultdict(dict)
    wanted = np.array(sorted(starts), np.int64)
    spans = {span for at in _leading_to(analysis.image, wanted) if (span := analysis.image.span_at(at)) is not None}
    for span in sorted(spans, key=lambda span: span.start):
        function = analysis.function(span)
        whole = analysis.image.span_at(function.whole) if function.whole else span
        for target in starts.intersection(_targets(function)) - {function.start, function.whole}:
            found[target][whole.name if whole else function.name] = None
    return {start: tuple(found[start]) for start in starts}


def _leading_to(image: Image, starts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Iterator[int]:
    """The addresses of four bytes that lead to one of ``starts`` if they are the end of a call or jump."""
    for segment in image.segments:
        if not segment.executable:
            continue
        data = np.frombuffer(segment.data, np.uint8)
        for first in range(0, max(len(data) - 3, 0), _AT_ONCE):
            count = min(_AT_ONCE, len(data) - 3 - first)
            words = np.ndarray(count, "<i4", data[first : first + count + 3].tobytes(), strides=(1,))
            at = np.arange(count, dtype=np.int64) + (segment.address + first)
            yield from at[np.isin(at + 4 + words, starts)].tolist()


def _targets(function: Function) -> Iterator[int]:
    """The targets of a function's direct calls, and of its jumps."""
    yield from (target for _, target in function.calls)
    yield from (block.target for block in function.blocks)
