# SPDX-License-Identifier: LGPL-2.1-or-later
"""The paper's constructs as the checker understands them; docs/aspect/paper.md names these tests."""

from __future__ import annotations

import pytest

from gilk.lang.aspect.checked import (
    BindingSource,
    CheckedAlias,
    CheckedAlternative,
    CheckedAspect,
    CheckedBinding,
    CheckedDemand,
    CheckedFlow,
    CheckedFunction,
    CheckedGlobal,
)
from gilk.lang.types import CHAR, INT, Pointer
from tests.lang.aspect.files import HERE, checked


def aspect(text: str) -> CheckedAspect:
    found = checked(text)
    assert found.errors == () and found.file is not None
    return found.file.aspects[0]


def tags(text: str) -> set[str]:
    return {one.tag for one in checked(text).errors}


def bindings(alternative: CheckedAlternative) -> list[tuple[str, BindingSource]]:
    return [(one.name, one.source) for one in alternative.steps if isinstance(one, CheckedBinding)]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("call(void f(int a)) then { g(a); };", CheckedFunction),
        ("readGlobal(int x) then { g(); };", CheckedGlobal),
        ("writeGlobal(int x) then { g(); };", CheckedGlobal),
        ("controlflow(call(void f(void)), call(void g(void))) then { g(); };", CheckedFlow),
        ("unique(a) seq(call(void f(int a)); call(void g(int a)));", CheckedFunction),
    ],
)
def test_the_language_has_five_kinds_of_join_points(text: str, kind: type[object]) -> None:
    assert isinstance(aspect(text).elements[0].alternatives[0].point, kind)


def test_a_call_is_given_by_its_signature() -> None:
    element = aspect((HERE / "tst.paper.null.aspect").read_text()).elements[0]
    alternative = element.alternatives[0]
    assert isinstance(alternative.point, CheckedFunction)
    assert (alternative.point.name, alternative.point.image, alternative.point.exact) == ("foo", "", True)
    assert bindings(alternative) == [("a", BindingSource.ARGUMENT)]
    assert [one.condition.text for one in alternative.steps if isinstance(one, CheckedDemand)] == ["a == 0"]
    assert element.advice is not None
    assert element.advice.body.text == '{printf("null argument\\n"); exit(0);}'


def test_arguments_and_the_return_value_are_bound_with_their_types() -> None:
    text = "call(char *f(const char *a, int n[4])) && args(b, _) && return(r) && if (n) && if (r);"
    alternative = aspect(text).elements[0].alternatives[0]
    assert bindings(alternative) == [
        ("a", BindingSource.ARGUMENT),
        ("n", BindingSource.ARGUMENT),
        ("b", BindingSource.ARGUMENT),
        ("r", BindingSource.RETURN),
    ]
    types = [one.type.type for one in alternative.steps if isinstance(one, CheckedBinding)]
    assert types == [Pointer(CHAR), Pointer(INT), Pointer(CHAR), Pointer(CHAR)]
    assert alternative.returns and len(alternative.steps) == 6


@pytest.mark.parametrize(
    ("said", "when"),
    [("then", "before"), ("then before", "before"), ("then inplace", "inplace"), ("then after", "after")],
)
def test_advice_is_before_in_place_or_after(said: str, when: str) -> None:
    advice = aspect(f"call(int f(int a)) {said} {{ g(a); }};").elements[0].advice
    assert advice is not None and advice.when == when


def test_a_value_is_computed_at_the_match() -> None:
    steps = aspect((HERE / "tst.paper.accounting.aspect").read_text()).elements[0].alternatives[0].steps
    found = {one.name: one for one in steps if isinstance(one, CheckedBinding)}
    assert found["IP_CLIENT"].expression is not None
    assert found["IP_CLIENT"].expression.text == "http->request->client_addr"
    assert found["IP_CLIENT"].expression.names == ("http",)


def test_a_read_of_a_variable_binds_its_value() -> None:
    alternative = aspect("readGlobal(int lib:x.y) && value(v) then { x.y = v; };").elements[0].alternatives[0]
    assert isinstance(alternative.point, CheckedGlobal)
    assert (alternative.point.image, alternative.point.path, alternative.point.write) == ("lib", "x.y", False)
    assert bindings(alternative) == [("v", BindingSource.VALUE)]
    assert tags("readGlobal(int x) && old(o);") == {"A_TYPE"}


def test_a_write_of_a_variable_binds_old_and_new_value() -> None:
    alternative = (
        aspect("writeGlobal(int x) && value(v) && old(o) then after { g(v, o); };").elements[0].alternatives[0]
    )
    assert bindings(alternative) == [("v", BindingSource.VALUE), ("o", BindingSource.OLD)]


def test_an_alias_is_a_pointer_bound_by_an_earlier_element() -> None:
    text = (
        "unique(p) seq(call(int *f(void)) && return(p); write(p) && value(v) then { g(v); } *; call(void h(int *p)));"
    )
    point = aspect(text).elements[1].alternatives[0].point
    assert isinstance(point, CheckedAlias)
    assert (point.address, point.length, point.type.size, point.write) == ("p", None, 4, True)


@pytest.mark.parametrize(("word", "strict"), [("controlflow", True), ("controlflowstar", False)])
@pytest.mark.parametrize("last", ["call(void bar(void))", "readGlobal(int x)", "writeGlobal(int x)"])
def test_a_control_flow_is_strict_or_not_and_ends_in_a_call_or_access(word: str, strict: bool, last: str) -> None:
    point = aspect(f"{word}(call(void zoo(void)), call(void foo(void)), {last});").elements[0].alternatives[0].point
    assert isinstance(point, CheckedFlow)
    assert point.strict is strict and [one.name for one in point.outer] == ["zoo", "foo"]


def test_advice_sees_the_values_of_the_last_element_of_a_control_flow() -> None:
    flow = "controlflow(call(void zoo(int a)), {})"
    assert tags(flow.format("writeGlobal(int x)") + " && value(v) && old(o);") == set()
    assert tags(flow.format("writeGlobal(int x)") + " && return(r);") == {"A_TYPE"}
    assert tags(flow.format("call(int bar(void))") + " && return(r);") == set()
    assert tags(flow.format("call(int bar(void))") + " && value(v);") == {"A_TYPE"}


def test_only_elements_in_the_middle_are_repeated() -> None:
    text = "unique(a) seq(call(void f(int a)){}; call(void g(int a)){}; call(void h(int a)){});"
    assert tags(text.format("", " *", "")) == set()
    assert tags(text.format(" *", "", "")) == tags(text.format("", "", " *")) == {"A_REPEAT"}


def test_an_access_to_an_alias_cannot_begin_a_sequence() -> None:
    assert tags("seq(read(p, 8); call(void f(void *p)));") == {"A_FIRST_ACCESS"}
    assert tags("unique(v) seq(readGlobal(int x) && value(v); call(void f(int v)));") == set()


def test_bound_names_are_used_in_another_process_or_the_kernel() -> None:
    text = "group A; group B; unique(n) seq(A: call(void f(int n)); K: call(int g(int n)) *; B: call(void h(int n)));"
    found = aspect(text)
    assert [one.places for one in found.elements] == [("A",), ("K",), ("B",)]
    assert [one.name for one in found.kept] == ["n"]
    assert [[key.name for key in one.keys] for one in found.elements] == [[], ["n"], ["n"]]


def test_each_element_has_its_own_advice_and_all_share_c_functions() -> None:
    text = """%{ static int small(int n) { return n < 9; } %}
        unique(n) seq(call(void f(int n)) && if (small(n)) then { one(n); }; call(void g(int n)) then { two(n); });"""
    found = checked(text).file
    assert found is not None and "small" in found.process_c[0].text
    advice = [one.advice.body.text for one in found.aspects[0].elements if one.advice is not None]
    assert advice == ["{ one(n); }", "{ two(n); }"]


def test_a_place_is_a_group_or_several() -> None:
    text = "group A; group B; group C = A, B; {} call(void f(void));"
    assert aspect(text.format("B:")).elements[0].places == ("B",)
    assert aspect(text.format("C:")).elements[0].places == ("A", "B")
    assert aspect(text.format("A, K:")).elements[0].places == ("A", "K")
    assert aspect(text.format("A, K:")).elements[0].kernel
    assert tags(text.format("D:")) == {"A_GROUP"}


def test_advice_may_change_only_declared_groups() -> None:
    text = "group A; A: call(int f(void)) && return(r) then after {{ join({}, r); leave(A, pid()); }};"
    assert tags(text.format("A")) == set()
    assert tags(text.format("B")) == {"A_GROUP"}


def test_other_machines_are_refused_by_name() -> None:
    assert tags("group A; A@web: call(void f(void));") == {"A_ELSEWHERE"}


def test_cpp_functions_are_named_as_in_the_source() -> None:
    found = aspect("call(void lib:`C::m(int, char const*)`(void *this, int n, char *s)) && if (this && n);")
    point = found.elements[0].alternatives[0].point
    assert isinstance(point, CheckedFunction)
    assert (point.image, point.name, point.exact) == ("lib", "C::m(int, char const*)", True)
