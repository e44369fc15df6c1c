# SPDX-License-Identifier: LGPL-2.1-or-later
"""Keeps summaries of an image's functions between sessions, so that a point in a function needs the analysis of that
function only.

`malloc` calls three hundred other functions, whose effect on registers need not be found out again.
"""

from __future__ import annotations

import numpy as np

from gilk.analysis.analysis import Analysis
from gilk.analysis.liveness import Summary
from gilk.analysis.summaries import Known
from gilk.cache.arrays import load_arrays, store_arrays
from gilk.cache.key import sources
from gilk.image.model import Image

_COLUMNS = ("start", "gen", "keeps", "cycle")


def load(image: Image) -> dict[int, Known]:
    """The known summaries of an image's functions, by their start addresses."""
    return _load(_key(image))


def store(analysis: Analysis) -> None:
    """Store what this analysis knows, merged with what other sessions have stored meanwhile."""
    if not analysis.has_learnt:
        return
    key = _key(analysis.image)
    rows = [(start, *each.summary, each.cycle) for start, each in sorted({**_load(key), **analysis.known}.items())]
    columns = np.array(rows, np.int64).T
    store_arrays(key, dict(zip(_COLUMNS, columns, strict=True)))


def _key(image: Image) -> str:
    return f"functions-{image.content.hex()}-{sources('image', 'arch', 'analysis')}"


def _load(key: str) -> dict[int, Known]:
    arrays = load_arrays(key)
    if arrays is None or arrays.keys() != set(_COLUMNS) or len({array.shape for array in arrays.values()}) != 1:
        return {}
    rows = zip(*(arrays[name].tolist() for name in _COLUMNS), strict=True)
    return {start: Known(Summary(gen, keeps), cycle) for start, gen, keeps, cycle in rows}
