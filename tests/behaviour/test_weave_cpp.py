# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects about C++: methods by their names, `this`, virtual calls, overloads, and exceptions that pass through
advice which waits in `proceed`."""

from __future__ import annotations

from pathlib import Path

import pytest

import gilk
from tests.behaviour.advised import aspects, build, rounds
from tests.behaviour.harness import differences, leftovers
from tests.seldom import seldom

SHAPES = r"""
#include <string>
struct Refused { long why; };
struct Shape { long id; virtual long area(long scale) const = 0; virtual ~Shape() {} };
struct Square : Shape { long side; Square(long s) { id = 7; side = s; } long area(long scale) const override; };
struct Cube : Square { Cube(long s) : Square(s) {} long area(long scale) const override; };
namespace shop { template <typename T> NOINLINE T twice(T n) { __asm__ volatile(""); return n + n; }
NOINLINE long total(long a) { __asm__ volatile(""); return a; } NOINLINE long total(double a) { __asm__ volatile(""); return (long)a * 10; } }
NOINLINE long Square::area(long scale) const { __asm__ volatile(""); if (scale < 0) throw Refused{scale}; return side * side * scale; }
NOINLINE long Cube::area(long scale) const { long own = Square::area(scale) * 6; __asm__ volatile(""); return own; }
static void one_round(void)
{
	static Square square(3);
	static Cube cube(2);
	const Shape *shapes[] = {&square, &cube};
	long sum = 0, refused = 0;

	for (const Shape *one : shapes) {
		sum += one->area(1);
		try { sum += one->area(-5); } catch (const Refused &no) { refused += no.why; }
	}
	printf("%ld %ld %ld %ld\n", sum, refused, shop::twice(4L) + shop::twice(6), shop::total(2L) + shop::total(2.5));
}
"""
TEXT = """
%{ typedef struct { void **methods; long id, side; } shape; %}
aspect square: call(long `Square::area(long) const`(shape *self, long scale)) then inplace {
    report("%ld:%ld", self->id, self->side); return proceed(self, scale) + 100; };
aspect cube: call(long `Cube::area(long) const`(shape *self, long scale)) && return(r) then after { report("cube %ld", r); };
aspect twice: call(long `long shop::twice<long>(long)`(long n)) then { report("twice %ld", n); };
aspect total: call(long `shop::total(double)`(double a)) then inplace { return proceed(a) + 1; };
aspect within: controlflow(call(long `Cube::area(long) const`(shape *cube, long by)),
                           call(long `Square::area(long) const`(shape *self, long scale)));
"""


@pytest.mark.parametrize("compiler", seldom(("g++", "clang++"), 1))
def test_advice_on_cpp_methods_that_throw_exceptions(tmp_path: Path, compiler: str) -> None:
    options = ("-O2", "-fno-optimize-sibling-calls", "-fno-devirtualize") if compiler == "g++" else ("-O1",)
    with rounds(build(tmp_path, SHAPES, *options, compiler=compiler)) as program:
        assert program.ask() == "33 -10 20 22"
        with gilk.attach(program.pid) as target, gilk.weave(aspects(tmp_path, TEXT), target) as weaving:
            # 9 + 100, and (4 + 100) * 6; an exception passes the advice that waits
            assert program.ask() == "733 -10 20 23"
            said = [one.text for one in weaving.reports()]
            assert said == ["7:3", "7:3", "7:2", "cube 624", "7:2", "twice 4"]
            matched = {one.name: one.matches[0] for one in weaving.counts()}
            assert matched == {"square": 4, "cube": 1, "twice": 1, "total": 1, "within": 2}
        assert program.ask() == "33 -10 20 22"
        assert (differences(program.pid), leftovers(program.pid)) == ([], [])
