# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whether advice declares a variable with the name of a value of the aspect."""

from __future__ import annotations

import pytest

from gilk.lang.aspect.cnames import declares


@pytest.mark.parametrize(
    "text",
    [
        "{ int x = a; }", "int *p, **x;", "long e, k = f(a, b), x;", "for (int x = 0; x < 2; x++) f(x);",
        "char *const x = t;",
        "struct stat now; int x = proceed();", "char b[4], x[4];", "if (a) { unsigned long x; }", "T *x;",
    ],
)  # fmt: skip
def test_a_variable_of_its_own_is_one(text: str) -> None:
    assert declares(text, "x")


@pytest.mark.parametrize(
    "text",
    [
        "f(a * x);", "y = z * x;", "return x;", "else x = 2;", '"int x;"', "int y = f(a, x);", "int y = x, z;",
        "f(a, x);", "long l = (a & 3) * x; f(l);", "x = 3;", "char c[x];", "if (y) x = 4;", "/* int x; */ f(x);",
    ],
)  # fmt: skip
def test_a_use_is_none(text: str) -> None:
    assert not declares(text, "x")
