# SPDX-License-Identifier: LGPL-2.1-or-later
"""Any graph's picture: no box over another, no edge behind a box, every edge from its block to the other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gilk.render.layout import Arc, Box, Drawing, Route, draw

Graph = tuple[list[tuple[int, int]], list[Arc]]


@st.composite
def graphs(choose: st.DrawFn, most: int = 40) -> Graph:
    """Random graphs, also with loops, blocks that lead to themselves, and blocks without a way in."""
    sizes = choose(st.lists(st.tuples(st.integers(30, 400), st.integers(36, 300)), min_size=1, max_size=20))
    number = st.integers(0, len(sizes) - 1)
    pairs = choose(st.lists(st.tuples(number, number), max_size=most, unique=True))
    return sizes, [Arc(source, target) for source, target in pairs]


def inside(box: Box, x: int, y: int) -> bool:
    return box.x < x < box.x + box.width and box.y < y < box.y + box.height


def behind(drawing: Drawing) -> Iterator[tuple[Route, Box]]:
    """The routes with a part that crosses the inside of a box."""
    for route in drawing.routes:
        for (x1, y1), (x2, y2) in pairwise(route.points):
            for box in drawing.boxes:
                across = min(x1, x2) < box.x + box.width and max(x1, x2) > box.x
                if across and min(y1, y2) < box.y + box.height and max(y1, y2) > box.y:
                    yield route, box


@given(graphs())
def test_boxes_and_edges_do_not_overlap(graph: Graph) -> None:
    sizes, links = graph
    drawing = draw(sizes, links)
    assert [(box.width, box.height) for box in drawing.boxes] == sizes
    for number, box in enumerate(drawing.boxes):
        assert min(box.x, box.y) >= 0 and box.x + box.width <= drawing.width
        assert box.y + box.height <= drawing.height
        for other in drawing.boxes[:number]:
            apart = box.x >= other.x + other.width or other.x >= box.x + box.width
            assert apart or box.y >= other.y + other.height or other.y >= box.y + box.height
    assert not list(behind(drawing))


@given(graphs())
def test_edges_lead_from_source_to_target(graph: Graph) -> None:
    drawing = draw(*graph)
    assert [route.link for route in drawing.routes] == graph[1]
    for route in drawing.routes:
        source, target = drawing.boxes[route.link.source], drawing.boxes[route.link.target]
        (x1, y1), (x2, y2) = route.points[0], route.points[-1]
        assert y1 == source.y + source.height and source.x < x1 < source.x + source.width
        assert y2 == target.y and target.x < x2 < target.x + target.width
        for (x1, y1), (x2, y2) in pairwise(route.points):
            assert (x1 == x2) != (y1 == y2), "a stretch goes down or across"


@given(graphs())
def test_edges_lead_down_except_back_edges(graph: Graph) -> None:
    drawing = draw(*graph)
    for route in drawing.routes:
        source, target = drawing.boxes[route.link.source], drawing.boxes[route.link.target]
        assert route.back or source.y < target.y


def over_another(drawing: Drawing) -> Iterator[tuple[Route, Route]]:
    """The pairs of routes that have a stretch in common."""
    stretches = [(route, *sorted(pair)) for route in drawing.routes for pair in pairwise(route.points)]
    for at, (one, (x1, y1), (x2, y2)) in enumerate(stretches):
        for other, (x3, y3), (x4, y4) in stretches[:at]:
            down = x1 == x2 == x3 == x4 and max(y1, y3) < min(y2, y4)
            if one is not other and (down or (y1 == y2 == y3 == y4 and max(x1, x3) < min(x2, x4))):
                yield one, other


@given(graphs(most=9))
def test_no_edge_runs_over_another(graph: Graph) -> None:
    assert not list(over_another(draw(*graph)))


def test_an_edge_from_a_long_way_above_keeps_clear_of_one_into_the_block_below() -> None:
    """Block 2 stands below block 1, to which no edge leads from there: both edges would go down in the middle."""
    links = [Arc(0, 1), Arc(0, 2), Arc(1, 3), Arc(2, 4), Arc(3, 4), Arc(2, 3)]
    assert not list(over_another(draw([(100, 50)] * 5, links)))


def test_the_check_detects_an_edge_over_another() -> None:
    boxes = (Box(0, 0, 50, 40), Box(0, 90, 50, 40), Box(60, 90, 50, 40))
    one = Route(Arc(0, 1), ((25, 40), (25, 90)), False)
    other = Route(Arc(0, 2), ((25, 40), (25, 60), (85, 60), (85, 90)), False)
    assert list(over_another(Drawing(110, 130, boxes, (one, other)))) == [(other, one)]


def test_the_check_detects_an_edge_behind_a_box() -> None:
    boxes = (Box(0, 0, 50, 40), Box(0, 60, 50, 40), Box(0, 120, 50, 40))
    straight = Route(Arc(0, 2), ((25, 40), (25, 120)), False)
    assert list(behind(Drawing(50, 160, boxes, (straight,)))) == [(straight, boxes[1])]


def test_a_deep_graph_does_not_exceed_pythons_stack() -> None:
    blocks = 2 * sys.getrecursionlimit()
    drawing = draw([(80, 40)] * blocks, [Arc(n, n + 1) for n in range(blocks - 1)] + [Arc(blocks - 1, 0)])
    assert len({box.y for box in drawing.boxes}) == blocks
    assert drawing.routes[-1].back
