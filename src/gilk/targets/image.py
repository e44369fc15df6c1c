# SPDX-License-Identifier: LGPL-2.1-or-later
"""An image file in place of a live target: it can be scanned and planned for, as if it were loaded, but nothing is
changed."""

from __future__ import annotations

from gilk.analysis.analysis import Analysis
from gilk.analysis.jumps import JumpTargets
from gilk.cache.arrays import load_arrays, store_arrays
from gilk.cache.key import sources
from gilk.image.model import Image
from gilk.splice.allocator import PAGE, Arena, Occupied, PunPages
from gilk.splice.host import Host
from gilk.splice.planner import PatchContext
from gilk.targets import learnt

_ARENA = 256 << 20
#: Where Linux loads a position-independent program when addresses are not randomised.
_BIAS = 0x555555554000
_GAP = 1 << 20


def analyse(image: Image) -> Analysis:
    """The image's analysis, with earlier findings about jump targets and functions from the cache."""
    return Analysis(image, _jumps(image), learnt.load(image))


def _jumps(image: Image) -> JumpTargets:
    key = f"jumps-{image.content.hex()}-{sources('image', 'arch', 'analysis')}"
    kept = load_arrays(key)
    if kept is not None:
        try:
            return JumpTargets.from_arrays(kept)
        except (KeyError, ValueError):
            pass
    jumps = JumpTargets.scan(image)
    store_arrays(key, jumps.to_arrays())
    return jumps


def pretend_loaded(analysis: Analysis) -> PatchContext:
    """A context for making plans, in which the image is alone in an address space."""
    image = analysis.image
    bias = _BIAS if image.position_independent else 0
    low = min(s.address for s in image.segments) + bias & -PAGE
    high = max(s.address + s.size for s in image.segments) + bias + PAGE & -PAGE
    base = low - _ARENA - _GAP if low > _ARENA + 2 * _GAP else high + _GAP
    taken = tuple(sorted(((low, high), (base - PAGE, base + _ARENA))))
    host = Host(base - PAGE, base, PAGE, ((1 << 20, 1 << 20),) * 4, base, base, base)
    return PatchContext(analysis, bias, Arena(base, _ARENA, 0, PAGE), PunPages(Occupied(taken), _ARENA, 1 << 20), host)
