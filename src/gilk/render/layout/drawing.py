# SPDX-License-Identifier: LGPL-2.1-or-later
"""Turns rows, columns and ways into places in a picture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence

from gilk.render.layout.columns import WIDE, columns
from gilk.render.layout.model import Arc, Box, Drawing, Point, Route
from gilk.render.layout.ports import apart, spread
from gilk.render.layout.routes import ArcWay, lanes, ways
from gilk.render.layout.rows import rows

_LANE = 10  # the distance between two edges side by side
_MARGIN = 14  # the distance between a box and the nearest edge

Size = tuple[int, int]
_Stretch = tuple[int, int, int]  # the gap, from and to; a negative gap means that no lane is taken


def draw(sizes: Sequence[Size], links: Sequence[Arc]) -> Drawing:
    """The drawing of a graph. ``sizes``: width and height of each block's box. The first block is the entry."""
    found = rows(len(sizes), links)
    column = columns(found)
    chosen = ways(links, found.row, column)
    across = _Across(sizes, column, chosen)
    lane_x = [across.lane_x(number) for number in range(len(links))]
    places = [(left, size[0]) for left, size in zip(across.left, sizes, strict=True)]
    ports = apart(links, chosen, lane_x, spread(links, lane_x, places), places)
    flat = [_flat(ports[number], way, lane_x[number]) for number, way in enumerate(chosen)]
    lane, count = lanes([(gap, low, high) for pair in flat for gap, low, high in pair])
    down = _down(sizes, found.row, count)
    boxes = [Box(across.left[block], down.row[found.row[block]], *size) for block, size in enumerate(sizes)]
    routes = []
    for number, link in enumerate(links):
        turns = [down.lane_y(flat[number][side][0], lane[2 * number + side]) for side in (0, 1)]
        points = _points(link, boxes, ports[number], lane_x[number], turns)
        routes.append(Route(link, points, number in found.back))
    return Drawing(across.width, down.height, tuple(boxes), tuple(routes))


class _Across:
    """The places of boxes and channels from left to right: channels are as wide as their lanes, columns as
    their boxes.
    """

    def __init__(self, sizes: Sequence[Size], column: Sequence[int], chosen: Sequence[ArcWay]) -> None:
        spans = [(w.channel, min(w.first, w.last), max(w.first, w.last)) for w in chosen]
        self._lane, count = lanes(spans)
        self._way = chosen
        ending: dict[int, list[int]] = defaultdict(list)
        for block, at in enumerate(column):
            ending[at + WIDE].append(block)
        last = max(column, default=0) + WIDE
        wide = [_wide(count.get(channel, 0)) for channel in range(last + 1)]
        self._channel = [0] * (last + 1)
        for channel in range(1, last + 1):
            boxed = (self._channel[channel - WIDE] + wide[channel - WIDE] + sizes[b][0] for b in ending[channel])
            self._channel[channel] = max(self._channel[channel - 1] + wide[channel - 1], *boxed, 0)
        self.width = self._channel[last] + wide[last]
        self.left = []
        for block, at in enumerate(column):
            begin, end = self._channel[at] + wide[at], self._channel[at + WIDE]
            self.left.append((begin + end - sizes[block][0]) // 2)
        self.sizes = sizes

    def lane_x(self, number: int) -> int | None:
        """The place of the lane of a link; None if it needs none."""
        channel = self._way[number].channel
        return None if channel < 0 else self._channel[channel] + _MARGIN + self._lane[number] * _LANE


def _wide(lanes_there: int) -> int:
    return 2 * _MARGIN + max(lanes_there - 1, 0) * _LANE


def _flat(ports: tuple[int, int], way: ArcWay, lane: int | None) -> tuple[_Stretch, _Stretch]:
    """The two horizontal stretches of a link; one between neighbouring rows, and one of no length, take no lane."""
    turn = ports[1] if lane is None else lane
    return _stretch(way.first, ports[0], turn), _stretch(way.last, turn, ports[1])


def _stretch(gap: int, begin: int, end: int) -> _Stretch:
    return (gap if begin != end else -1 - gap, min(begin, end), max(begin, end))


class _Down:
    """The places of rows and gaps from top to bottom."""

    def __init__(self, high: Sequence[int], lanes_there: Mapping[Hashable, int]) -> None:
        self.row, self._gap, at = list[int](), list[int](), 0
        for number, height in enumerate([*high, 0]):
            self._gap.append(at)
            at += _wide(lanes_there.get(number, 0))
            self.row.append(at)
            at += height
        self.height = at

    def lane_y(self, gap: int, lane: int) -> int:
        return self._gap[gap] + _MARGIN + lane * _LANE if gap >= 0 else self._gap[-1 - gap] + _MARGIN


def _down(sizes: Sequence[Size], row: Sequence[int], lanes_there: Mapping[Hashable, int]) -> _Down:
    high = [0] * (max(row, default=-1) + 1)
    for block, (_, height) in enumerate(sizes):
        high[row[block]] = max(high[row[block]], height)
    return _Down(high, lanes_there)


def _points(
    link: Arc, boxes: Sequence[Box], ports: tuple[int, int], lane: int | None, turns: Sequence[int]
) -> tuple[Point, ...]:
    source, target = boxes[link.source], boxes[link.target]
    begin, end = (ports[0], source.y + source.height), (ports[1], target.y)
    if lane is None:
        corners = [(ports[0], turns[0]), (ports[1], turns[0])]
    else:
        corners = [(ports[0], turns[0]), (lane, turns[0]), (lane, turns[1]), (ports[1], turns[1])]
    return tuple(dict.fromkeys((begin, *corners, end)))
