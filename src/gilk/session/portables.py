# SPDX-License-Identifier: LGPL-2.1-or-later
"""The plans that the cache keeps for the same at many functions of an image: their keys, what is believed of them."""

from __future__ import annotations

import functools

import numpy as np

from gilk.build.runtime import runtime
from gilk.cache.arrays import load_arrays, store_arrays
from gilk.cache.key import sources
from gilk.digest import digest
from gilk.image.model import Image
from gilk.splice.portable import Malformed, Portable
from gilk.target.blank import Shape

_PLANNERS = ("image", "arch", "analysis", "splice", "target/blank.py")  # whose code decides what a plan is


def key(what: str, image: Image, shape: Shape) -> str:
    """Of plans in the cache: all that they follow from. ``what``: which points they are for, and the instrument.

    Raises CompileError.
    """
    return f"{what}-{image.content.hex()}-{shape}-{_runtime()}-{sources(*_PLANNERS)}"


def load(key: str, image: Image) -> Portable | None:
    """What the cache has; None when there is nothing, or not what it should be for the image."""
    arrays = load_arrays(key)
    if arrays is None:
        return None
    try:
        portable = Portable.from_arrays(arrays)
    except Malformed:
        return None
    return portable if _fits(portable, image) else None


def keep(key: str, portable: Portable) -> None:
    store_arrays(key, portable.to_arrays())


def _fits(portable: Portable, image: Image) -> bool:
    """The bytes that would be replaced are the image's, all of them code."""
    size = portable.site_size.astype(np.int64)
    at = np.repeat(portable.site_at - np.cumsum(size) + size, size) + np.arange(len(portable.old))
    good = np.zeros(len(at), np.bool_)
    for segment in image.segments:
        if segment.executable and segment.data:
            here = np.flatnonzero((at >= segment.address) & (at < segment.address + len(segment.data)))
            data = np.frombuffer(segment.data, np.uint8)
            good[here] = data[at[here] - segment.address] == portable.old[here]
    return bool(good.all())


@functools.cache
def _runtime() -> str:
    made = runtime()
    return digest(made.code + repr(sorted(made.symbols.items())).encode()).hexdigest()[:32]
