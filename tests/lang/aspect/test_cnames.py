# SPDX-License-Identifier: LGPL-2.1-or-later
"""The names in pieces of C: variables that advice declares, and values that conditions compare."""

from __future__ import annotations

import pytest

from gilk.lang.aspect.cnames import declares, equalities


@pytest.mark.parametrize(
    "text",
    [
        "{ int x = a; }", "int *p, **x;", "long e, k = f(a, b), x;", "for (int x = 0; x < 2; x++) f(x);",
        "char *const x = t;",
        "struct stat now; int x = proceed();", "char b[4], x[4];", "if (a) { unsigned long x; }", "T *x;",
    ],
)  # fmt: skip
def test_declarations_of_variables_are_recognised(text: str) -> None:
    assert declares(text, "x")


@pytest.mark.parametrize(
    "text",
    [
        "f(a * x);", "y = z * x;", "return x;", "else x = 2;", '"int x;"', "int y = f(a, x);", "int y = x, z;",
        "f(a, x);", "long l = (a & 3) * x; f(l);", "x = 3;", "char c[x];", "if (y) x = 4;", "/* int x; */ f(x);",
    ],
)  # fmt: skip
def test_uses_of_a_name_are_no_declarations(text: str) -> None:
    assert not declares(text, "x")


@pytest.mark.parametrize(
    ("condition", "sides"),
    [
        ("a == b", [("a", "b")]),
        ("a == b && c == f(d, e)", [("a", "b"), ("c", "f(d, e)")]),
        ("(a == b)", [("a", "b")]),
        ("((a == b && c == d))", [("a", "b"), ("c", "d")]),
        ("(a == b) && ((c == d) && e > 0)", [("a", "b"), ("c", "d")]),
        ("(a) == (b)", [("(a)", "(b)")]),
        ('s == f(")") && (a == b)', [("s", 'f(")")'), ("a", "b")]),
        ("(a == b || c == d)", []),
        ("(a == b && c == d) || e", []),
        ("!(a == b)", []),
        ("a == b ? c : d", []),
    ],
)
def test_equalities_in_conditions_are_found_also_in_brackets(condition: str, sides: list[tuple[str, str]]) -> None:
    assert list(equalities(condition)) == sides
