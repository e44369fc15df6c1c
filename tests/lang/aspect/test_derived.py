# SPDX-License-Identifier: LGPL-2.1-or-later
"""Properties derived from an automaton: keys, state, ends, costs."""

from __future__ import annotations

from typing import Any

import pytest

from gilk.lang.aspect import derived
from gilk.lang.aspect.automaton import AliasAccess, Alternative, BoundName, Element, Sharing, Word
from gilk.lang.aspect.cost import hit_costs
from tests.lang.aspect.automata import calling, element, qualifier, sequence

FIRST = element(calling("a", "k", "m"))


@pytest.mark.parametrize(
    ("second", "keys"),
    [
        (element(calling("b", "k")), ("k",)),
        (element(calling("b", "m", "k")), ("k", "m")),
        (element(calling("b", "x")), ()),
        (element(calling("b", "x"), "x == k"), ("k",)),
        (element(calling("b", "x"), "pid() == m && x > 1"), ("m",)),
        (element(calling("b", "x"), "x == k || x == 1"), ()),
        (element(calling("b", "x"), "x == k + m"), ()),
        (element(calling("b", "x"), "k == m"), ()),
        (element(calling("b", "x"), "k = x + 1"), ("k",)),
        (element(calling("b", "x"), "k = m + 1"), ()),
        (element(calling("b", "x"), "y = m + x", "k == y"), ()),
        (element(calling("b", "x"), "y = p->q(x)", "k == y"), ("k",)),
        (element(calling("b", "x"), "return k"), ("k",)),
        (element(AliasAccess(True, "k", "8")), ("k",)),
    ],
)
def test_keys_are_the_bound_names_compared_with_the_event(second: Element, keys: tuple[str, ...]) -> None:
    assert derived.keys(sequence(FIRST, second), 1) == keys


def test_keys_of_alternatives_are_those_that_all_have() -> None:
    either = Element((
        Alternative(calling("b", "k", "m")),
        Alternative(calling("c", "x"), (qualifier("x == k"),)),
    ))  # fmt: skip
    assert derived.keys(sequence(FIRST, either), 1) == ("k",)


def test_a_name_bound_only_by_a_repeated_element_is_no_key() -> None:
    automaton = sequence(FIRST, element(calling("b", "x"), star=True), element(calling("c", "x")))
    assert derived.keys(automaton, 2) == () and set(derived.bound_before(automaton, 2)) == {"k", "m"}


def test_only_names_that_are_used_later_are_kept_as_state() -> None:
    automaton = sequence(
        element(calling("a", "int k", "m", "char * p"), "char path[10] = p", "struct in6_addr who = f(m)"),
        element(calling("b", "int k"), before='report("m %d", path->m, who)'),
        words=(Word(BoundName("by", "short")),),
    )
    record = derived.record(automaton)
    assert [(one.name, one.offset, one.size) for one in record.names] == [
        ("who", 0, None), ("k", 0, 4), ("by", 4, 2), ("path", 6, 10),
    ]  # fmt: skip
    assert (record.size, record.whole) == (16, False)
    assert derived.record(sequence(element(calling("a", "k")))).size == 0


@pytest.mark.parametrize(
    ("others", "end"),
    [
        ({"until": (element(calling("u")),)}, "a match of until"),
        ({"within": 5}, "age"),
        ({"unique": ("k",)}, "another with an equal k"),
        ({"sharing": Sharing.THREAD}, "the end of its thread"),
        ({"sharing": Sharing.PROCESS}, "the end of its process"),
    ],
)
def test_the_ends_of_an_instance_are_named(others: dict[str, Any], end: str) -> None:
    found = sequence(FIRST, element(calling("b", "k")), **others)
    assert derived.endings(found) == ("a match of element 2", end)


def test_more_work_at_a_hit_has_a_higher_cost() -> None:
    keyed, unkeyed = (sequence(FIRST, element(calling("b", one)), within=5) for one in ("k", "x"))
    for automaton in (keyed, unkeyed):
        for cost in hit_costs(automaton):
            assert 0 < cost.idle <= cost.passed <= cost.moved
    assert hit_costs(keyed)[1].each == 0 < hit_costs(unkeyed)[1].each


def test_each_additional_feature_has_a_cost() -> None:
    def moved(one: Element) -> float:
        return hit_costs(sequence(FIRST, one, within=5))[1].moved

    plain = moved(element(calling("b", "k")))
    assert plain < moved(element(calling("b", "k"), "k > 1"))
    assert (
        plain < moved(element(calling("b", "k"), before="f()")) < moved(element(calling("b", "k"), inplace="proceed()"))
    )
    assert plain < moved(element(calling("b", "k"), "return r"))
    wide = sequence(element(calling("a", "p"), "char q[256] = p"), element(calling("b", "p"), "char q[256] = p"))
    assert plain < hit_costs(wide)[1].moved


def test_kernel_functions_that_read_members_cost_as_much_as_the_loads() -> None:
    """In a process such a name is a function of the file's own."""

    def passed(text: str, place: str) -> float:
        return hit_costs(sequence(element(calling("b", "d"), f"{text} == 5", places=(place,))))[0].passed

    assert passed("d_inode(d)", "K") == passed("d->d_inode", "K") == passed("d->d_inode", "A")
    assert passed("d_inode(d)", "A") == passed("other(d)", "A") == passed("other(d)", "K") > passed("d_inode(d)", "K")
