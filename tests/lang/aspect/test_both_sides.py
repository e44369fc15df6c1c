# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects whose single element is in processes and in the kernel at once."""

from __future__ import annotations

import pytest

from gilk.engines.aspect.possible import check_possible
from gilk.errors import UsageError
from gilk.lang.aspect.both_sides import each_side, summed, switches
from gilk.lang.aspect.code.meeting import numbered
from gilk.lang.aspect.lower import automata
from gilk.lang.aspect.woven import AspectCounts
from tests.lang.aspect.files import checked

TEXT = """
group A; group B;
call(int first(int n));
aspect both: A, K, B: call(int f(int n)) then { aspect_off(both); };
A: call(int last(int n));
"""


def test_one_aspect_becomes_two_that_are_switched_and_counted_as_one() -> None:
    file = checked(TEXT).file
    assert file is not None
    sides = each_side(file)
    assert [one.elements[0].places for one in sides.aspects] == [(), ("A", "B"), ("K",), ("A",)]
    assert [one.elements[0].kernel for one in sides.aspects] == [False, False, True, False]
    assert [one.name for one in automata(sides)] == ["#1", "both", "both", "#3"]
    assert list(switches(sides)) == ["#define GILK_ASPECT_both 0x6UL"]
    counts = [AspectCounts(one.name, (n,), n, 0, n, 0, 0, 0, n, 0, 0, 0) for n, one in enumerate(automata(sides), 1)]
    found = summed(counts, sides.aspects)
    assert [(one.name, one.matches, one.lost) for one in found] == [("#1", (1,), 1), ("both", (5,), 5), ("#3", (4,), 4)]


def test_an_element_of_a_sequence_is_refused_by_name() -> None:
    file = checked("group A; unique(n) seq(A: call(int f(int n)); A, K: call(int g(int n)));").file
    assert file is not None
    sides = each_side(file)
    with pytest.raises(UsageError, match="an element of a sequence is in the kernel and in processes") as raised:
        check_possible(sides, numbered(sides, automata(sides)))
    assert raised.value.slug == "cannot-weave"


def test_verify_is_refused_in_the_kernel() -> None:
    file = checked("verify K: call(int f(int n));").file
    assert file is not None
    with pytest.raises(UsageError, match="`verify` is for processes") as raised:
        check_possible(file, numbered(file, automata(file)))
    assert raised.value.slug == "cannot-weave"
