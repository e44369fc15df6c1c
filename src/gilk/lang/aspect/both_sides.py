# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects of a single element that is placed in groups of processes and in the kernel, ``A, K: call(...)``. They are
woven as two aspects, one for each side, which are switched together and counted as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gilk.lang.aspect.checked import KERNEL_GROUP, CheckedAspect, CheckedElement, CheckedFile
from gilk.lang.aspect.woven import AspectCounts


def each_side(file: CheckedFile) -> CheckedFile:
    """The file with two aspects in the place of each aspect whose single element is placed on both sides."""
    return replace(file, aspects=tuple(one for aspect in file.aspects for one in _sides(aspect)))


def is_on_both_sides(element: CheckedElement) -> bool:
    return element.kernel and len(element.places) > 1


def _sides(aspect: CheckedAspect) -> Iterator[CheckedAspect]:
    if aspect.sequence or not is_on_both_sides(aspect.elements[0]):
        yield aspect
        return
    element = aspect.elements[0]
    groups = tuple(one for one in element.places if one != KERNEL_GROUP)
    yield replace(aspect, elements=(replace(element, places=groups),))
    yield replace(aspect, elements=(replace(element, places=(KERNEL_GROUP,)),), twin=True)


def switches(file: CheckedFile) -> Iterator[str]:
    """Definitions of the bits by which advice switches aspects that have names."""
    bits: dict[str, int] = {}
    for number, one in enumerate(file.aspects):
        if one.name:
            bits[one.name] = bits.get(one.name, 0) | 1 << number
    yield from (f"#define GILK_ASPECT_{name} {found:#x}UL" for name, found in bits.items())


def summed(counts: Sequence[AspectCounts], aspects: Sequence[CheckedAspect]) -> tuple[AspectCounts, ...]:
    """The counts of the aspects as they are written: those of the two sides of an aspect are added."""
    found: list[AspectCounts] = []
    for one, aspect in zip(counts, aspects, strict=True):
        if aspect.twin:
            found[-1] = _sum(found[-1], one)
        else:
            found.append(one)
    return tuple(found)


def _sum(one: AspectCounts, other: AspectCounts) -> AspectCounts:
    matches = tuple(a + b for a, b in zip(one.matches, other.matches, strict=True))
    names = (name for name in AspectCounts.__dataclass_fields__ if name not in ("name", "matches"))
    return AspectCounts(one.name, matches, **{name: getattr(one, name) + getattr(other, name) for name in names})
