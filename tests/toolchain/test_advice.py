# SPDX-License-Identifier: LGPL-2.1-or-later
"""How functions are called: the compiler's rules agree with the System V ABI (section 3.2.3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from gilk.lang.c.advice import When
from gilk.lang.c.signature import parse
from gilk.toolchain.advice import Convention, compile_advice

STRUCTS = """
struct small { long a; double b; };
struct floats { double a, b; };
struct big { long a, b, c; };
"""
CALLED = {
    "void f(void)": Convention(0, 0, 0, 0),
    "long f(int a)": Convention(0, 1, 0, 1),
    "double f(double x, float y)": Convention(0, 0, 2, 4),
    "long f(long a, double x, char *b)": Convention(0, 2, 1, 1),
    "struct small f(struct small s, struct floats t)": Convention(0, 1, 3, 15),
    "struct big f(long a)": Convention(0, 2, 0, 1),
    "__int128 f(struct big s, long a)": Convention(24, 1, 0, 3),
    "long f(int a, int b, int c, int d, int e, int g, int h, int i)": Convention(16, 6, 0, 1),
    "long f(long a, long b, long c, long d, long e, __int128 x, long g)": Convention(16, 6, 0, 1),
    "int f(const char *a, int b, ...)": Convention(0, 2, 0, 1),
    "void f(double a, double b, double c, double d, double e, double g, double h, double i, double j)":
        Convention(8, 0, 8, 0),
}  # fmt: skip


@pytest.mark.parametrize("text", CALLED)
def test_registers_of_arguments_and_results(text: str) -> None:
    advice = text.replace(" f(", " a(") + " { __builtin_unreachable(); }"
    made = compile_advice(Path("text.c"), advice, "a", parse(text), When.INPLACE, STRUCTS)
    assert made.called == CALLED[text]
