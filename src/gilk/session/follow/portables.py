# SPDX-License-Identifier: LGPL-2.1-or-later
"""The plans that the cache keeps for whole images: their keys, how they are made, and what is believed of them."""

from __future__ import annotations

import functools
import hashlib

import numpy as np

from gilk.analysis.analysis import Analysis
from gilk.build.runtime import runtime
from gilk.image.cache import load_arrays, store_arrays
from gilk.image.model import Image
from gilk.image.provenance import content, sources
from gilk.splice.capture import Progress, capture
from gilk.splice.portable import Malformed, Portable
from gilk.target.blank import Shape, blank_ground

_PLANNERS = ("image", "arch", "analysis", "splice", "target/blank.py")  # whose code decides what a plan is


def key(image: Image, shape: Shape) -> str:
    """Of an image's plans in the cache: all that they follow from. Raises CompileError."""
    return f"timing-{content(image)}-{shape}-{_runtime()}-{sources(*_PLANNERS)}"


def load(image: Image, shape: Shape) -> Portable | None:
    """What the cache has for the image; None when there is nothing, or not what it should be. Raises CompileError."""
    arrays = load_arrays(key(image, shape))
    if arrays is None:
        return None
    try:
        portable = Portable.from_arrays(arrays)
    except Malformed:
        return None
    return portable if _fits(portable, image) else None


def make(analysis: Analysis, shape: Shape, told: Progress = lambda done, of: None) -> Portable:
    """Plan everything, and keep it. Raises CompileError, OutOfSpace, OverflowError for what is too large to be kept."""
    portable = capture(blank_ground(analysis, shape), told)
    store_arrays(key(analysis.image, shape), portable.to_arrays())
    return portable


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
    return hashlib.sha256(made.code + repr(sorted(made.symbols.items())).encode()).hexdigest()[:32]
