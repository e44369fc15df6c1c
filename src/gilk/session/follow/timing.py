# SPDX-License-Identifier: LGPL-2.1-or-later
"""Plans for the timing of all functions of an image, as the cache keeps them."""

from __future__ import annotations

from gilk.analysis.analysis import Analysis
from gilk.image.model import Image
from gilk.session import portables
from gilk.splice.capture import Progress, capture, timings
from gilk.splice.portable import Portable
from gilk.target.blank import Shape, blank_ground


def key(image: Image, shape: Shape) -> str:
    """Raises CompileError."""
    return portables.key("timing", image, shape)


def load(image: Image, shape: Shape) -> Portable | None:
    """None when the cache has none that are believed. Raises CompileError."""
    return portables.load(key(image, shape), image)


def make(analysis: Analysis, shape: Shape, told: Progress = lambda done, of: None) -> Portable:
    """Plan everything, and keep it. Raises CompileError, OutOfSpace, OverflowError for what is too large to be kept."""
    portable = capture(blank_ground(analysis, shape), timings(analysis), told=told)
    portables.keep(key(analysis.image, shape), portable)
    return portable
