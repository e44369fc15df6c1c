# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects with elements that are in processes and in the kernel at once."""

from __future__ import annotations

import pytest

from gilk.engines.aspect.possible import check_possible
from gilk.errors import UsageError
from gilk.lang.aspect.code.meeting import NumberedAspect, numbered
from gilk.lang.aspect.code.sides import is_on_both
from gilk.lang.aspect.code.types import structs
from gilk.lang.aspect.events import AspectEvent, EventKind
from gilk.lang.aspect.lower import automata
from gilk.lang.aspect.model import AspectModel
from gilk.lang.aspect.tags import AspectTag
from tests.lang.aspect.files import checked

SEQUENCE = """
group A; group B;
aspect both: unique(who) seq(A, K: call(int begin(int n)) && bind(int who, n);
  B, K: call(int step(int n)) && if (n == who) then { aspect_off(both); } *;
  A: call(int last(int n)) && bind(int who, n)) until B, K: call(int stop(int n)) && if (n == who);
"""


def of(text: str) -> tuple[NumberedAspect, ...]:
    file = checked(text).file
    assert file is not None
    aspects = numbered(file, automata(file))
    check_possible(file, aspects)
    return aspects


def test_an_element_is_on_each_side_that_its_places_are_on() -> None:
    (aspect,) = of(SEQUENCE)
    assert [one.processes for one in aspect.elements] == [True, True, True, True]
    assert [one.kernel for one in aspect.elements] == [True, True, False, True]
    assert is_on_both(aspect)
    assert [one.places for one in aspect.automaton.elements] == [("A", "K"), ("B", "K"), ("A",)]


def test_either_side_begins_continues_and_ends_an_instance() -> None:
    """Process 5 is in A, process 6 in B; the events of a kernel are those of any process."""
    (aspect,) = of(SEQUENCE)
    model = AspectModel((aspect.automaton,), {"A": (5,), "B": (6,)})

    def called(function: str, number: int, pid: int, kernel: bool = False) -> list[str]:
        event = AspectEvent(EventKind.CALL, function, pid=pid, tid=pid, arguments=(number,), kernel=kernel)
        return [str(one.did) for one in model.step(event) if one.aspect]

    assert called("begin", 1, 6) == []
    assert called("begin", 1, 6, kernel=True) == called("begin", 2, 5) == ["began"]
    assert called("step", 1, 5) == []
    assert called("last", 2, 5, kernel=True) == []
    assert called("last", 2, 5) == ["moved", "ended"]
    assert called("stop", 2, 6) == []
    assert called("begin", 1, 5) == ["replaced", "began"]
    assert called("stop", 1, 5) == []
    assert called("stop", 1, 5, kernel=True) == ["until"]


def test_both_sides_have_the_record_and_the_names_of_such_an_element() -> None:
    (aspect,) = of(SEQUENCE)
    in_processes, in_kernel = ("\n".join(structs(aspect, kernel)) for kernel in (False, True))
    for made in (in_processes, in_kernel):
        assert "struct gilk_bound_0_0 " in made and "struct gilk_bound_0_1 " in made
        assert '"who is not alike in processes and in the kernel"' in made
    assert "struct gilk_bound_0_2 " in in_processes and "struct gilk_bound_0_2 " not in in_kernel


SIZES = {
    "dev_t": "of 8 bytes, and that has 4 in the kernel",
    "pthread_t": "of 8 bytes, and the kernel has no such type",
}


@pytest.mark.parametrize("type_", SIZES)
def test_a_name_that_both_sides_bind_has_one_size(type_: str) -> None:
    check = checked(f"group A; seq(A, K: call(int f({type_} n)); A: call(int g(int m)) && if (n == m));")
    (found,) = (one.message for one in check.errors if one.tag == AspectTag.A_PLACE)
    assert SIZES[type_] in found


def test_a_name_of_the_elements_own_may_differ() -> None:
    check = checked("group A; seq(A, K: call(int f(dev_t n)) && if (n); A: call(int g(int m)));")
    assert check.errors == ()


def test_verify_is_refused_in_the_kernel() -> None:
    file = checked("verify K: call(int f(int n));").file
    assert file is not None
    with pytest.raises(UsageError, match="`verify` is for processes") as raised:
        check_possible(file, numbered(file, automata(file)))
    assert raised.value.slug == "cannot-weave"
