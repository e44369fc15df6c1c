# SPDX-License-Identifier: LGPL-2.1-or-later
"""Chooses the places at which edges leave and enter boxes, so that no edge runs over another one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from gilk.render.layout.model import Arc
from gilk.render.layout.routes import ArcWay

Ports = tuple[int, int]  # the places at which a link leaves its box and enters the other
Place = tuple[int, int]  # the left end of a box, and its width
_CLEAR: Final = 4  # the distance between two edges that go down side by side, where there is room for it


def spread(links: Sequence[Arc], lane_x: Sequence[int | None], places: Sequence[Place]) -> list[Ports]:
    """The ports of each link; on each side of a box they are spread in the order of the places at the other end.
    ``lane_x`` are the places of the links' lanes, ``places`` those of the boxes.
    """
    leaving, entering = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for number, link in enumerate(links):
        leaving[link.source].append(number)
        entering[link.target].append(number)

    def middle(block: int, lane: int | None) -> int:
        return lane if lane is not None else places[block][0] + places[block][1] // 2

    out, into = [0] * len(links), [0] * len(links)
    for ports, groups, far in ((out, leaving, "target"), (into, entering, "source")):
        for block, numbers in groups.items():
            order = sorted(numbers, key=lambda n: (middle(getattr(links[n], far), lane_x[n]), n))
            for place, number in enumerate(order, 1):
                ports[number] = places[block][0] + places[block][1] * place // (len(order) + 1)
    return list(zip(out, into, strict=True))


def apart(
    links: Sequence[Arc], chosen: Sequence[ArcWay], lane_x: Sequence[int | None], ports: Sequence[Ports],
    places: Sequence[Place],
) -> list[Ports]:  # fmt: skip
    """The ports, moved where an edge would go down or up over another one in the same gap: over one from a box above
    the gap, to one below it, or in a lane that ends in it.
    """
    used = defaultdict[int, dict[int, int]](dict)  # by gap, and by place: the link that is there
    for number, (way, lane) in enumerate(zip(chosen, lane_x, strict=True)):
        if lane is not None:
            used[way.first][lane] = used[way.last][lane] = number
    out = [
        _taken(used[way.first], number, ports[number][0], places[links[number].source])
        for number, way in enumerate(chosen)
    ]
    into = [
        _taken(used[way.last], number, ports[number][1], places[links[number].target])
        for number, way in enumerate(chosen)
    ]
    return list(zip(out, into, strict=True))


def _taken(used: dict[int, int], number: int, wanted: int, place: Place) -> int:
    """The place next to the wanted one at which the link is clear of others; it is noted in ``used``."""
    for clear in (_CLEAR, 1):
        for x in _nearest(wanted, place):
            if all(used.get(near, number) == number for near in range(x - clear + 1, x + clear)):
                used[x] = number
                return x
    return wanted  # the box is full


def _nearest(wanted: int, place: Place) -> Iterator[int]:
    left, width = place
    yield wanted
    for distance in range(1, width):
        yield from (x for x in (wanted + distance, wanted - distance) if left < x < left + width)
