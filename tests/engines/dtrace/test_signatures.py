# SPDX-License-Identifier: LGPL-2.1-or-later
"""``args[n]`` of functions whose parameters do not lie in the first registers one after the other: it shows what the
caller passes, or is refused."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from gilk.engines.dtrace.world import SymbolContext
from gilk.image.elf import load
from gilk.image.model import Image
from gilk.targets.base import Loaded
from tests.providers.sessions import traced

KEEP = r"""
#ifdef __clang__
#define KEEP __attribute__((noinline))
#else
#define KEEP __attribute__((noipa))
#endif
#define HOT KEEP int
"""
C = (
    KEEP
    + r"""
typedef float four __attribute__((vector_size(16)));
struct big { long a, b, c; };
struct two { long a; double d; };
struct odd { char c; long l; } __attribute__((packed));
struct bits { unsigned a : 3; unsigned b : 30; int c; };
static volatile int sink;
struct big KEEP big_result(int a, int b) { sink = a; return (struct big){ a, b, 1 }; }
struct two KEEP two_result(int a, int b) { sink = a; return (struct two){ a, b }; }
struct odd KEEP odd_result(int a, int b) { sink = a; return (struct odd){ (char)a, b }; }
HOT by_value(struct big s, int b, struct two t, int d) { sink = b; return (int)(s.a + t.a) + d; }
HOT packed(struct odd s, int b) { sink = b; return s.c; }
HOT of_bits(struct bits s, int b) { sink = b; return s.c; }
HOT floats(double x, int b, float y, int d, long double z, int f) { sink = b + d + f; return (int)(x + y + z); }
HOT vectors(four v, int b, _Complex double c, int d) { sink = b + d; return (int)(v[0] + __real__ c); }
HOT wide(__int128 w, int b, struct two t, struct two u, int e, int f)
{
	sink = b;
	return (int)w + (int)(t.a + u.a) + e + f;
}
HOT full(long a, long b, long c, long d, long e, struct bits s, int g, __int128 w, int i)
{
	sink = g + (int)(b + c + d + e);
	return (int)(a + w) + i;
}
int main(void)
{
	struct big s = { 1, 2, 3 }; struct two t = { 4, 5 }; struct odd o = { 6, 7 }; struct bits n = { 1, 2, 3 };
	four v = { 1, 2, 3, 4 };
	s = big_result(100, 101); t = two_result(100, 101); o = odd_result(100, 101);
	return by_value(s, 101, t, 103) + packed(o, 101) + of_bits(n, 101) + floats(1, 101, 2, 103, 3, 105)
		+ vectors(v, 101, 1, 103) + wide(1, 101, t, t, 104, 105) + full(100, 101, 102, 103, 104, n, 106, 1, 108) < 0;
}
"""
)
#: The parameters by number that lie in a register, by the ABI (3.2.3): the caller passes 100 and their number.
IN_C = {
    "big_result": [0, 1], "two_result": [0, 1], "odd_result": [0, 1], "by_value": [1, 3], "packed": [1], "of_bits": [1],
    "floats": [1, 3, 5], "vectors": [1, 3], "wide": [1, 4], "full": [0, 1, 2, 3, 4, 6],
}  # fmt: skip

CPP = (
    KEEP
    + r"""
#include <cstddef>
static volatile int sink;
namespace shop {
struct Plain { int n; };
struct Owner { Owner(int n) : n(n) {} Owner(const Owner &other) : n(other.n) {} ~Owner() { sink = n; } int n; };
struct Base { int base = 1; };
class Till : public virtual Base {
public:
	explicit Till(int a) { sink = a; }
	virtual ~Till() = default;
	virtual HOT sell(int a, const Plain &plain, int &&moved) { sink = a; return plain.n + moved + n; }
	static HOT of_class(int a, int b) { sink = a; return b; }
	Owner made(int a);
	int n = 2;
};
Owner KEEP Till::made(int a) { return Owner(a); }
HOT owned(int a, Owner owner, int c) { sink = a + c; return owner.n; }
HOT null(std::nullptr_t, int b) { sink = b; return b; }
HOT member(int Till::*data, int b, int (Till::*method)(int, const Plain &, int &&), int d)
{
	sink = b + d;
	return !data + !method;
}
template <typename T> HOT larger(T a, T b) { sink = (int)a; return a < b; }
HOT update(int a, int b) { sink = a; return b; }
HOT update(long a) { sink = (int)a; return 1; }
}
int main()
{
	shop::Till till(101);
	shop::Plain plain = { 1 };
	return till.sell(101, plain, 103) + shop::Till::of_class(100, 101) + till.made(101).n
		+ shop::owned(100, shop::Owner(1), 102) + shop::null(nullptr, 101)
		+ shop::member(&shop::Till::n, 101, &shop::Till::sell, 103) + shop::larger<long>(100, 101)
		+ shop::update(100, 101) + shop::update(100L) < 0;
}
"""
)
#: Those that have a register for certain: compilers need not say whether an object is passed by reference.
IN_CPP = {
    "shop::Till::sell": [1], "shop::Till::of_class": [0, 1], "shop::owned": [0], "shop::null": [1],
    "shop::member": [1, 3], "shop::larger": [0, 1],
}  # fmt: skip


class File:
    """A program that does not run (world.HasImages)."""

    pid = 1

    def __init__(self, path: Path) -> None:
        self._loaded, self._image = Loaded(path, 0, 0, 0, True), load(path)

    def loaded(self) -> Sequence[Loaded]:
        return (self._loaded,)

    def image(self, path: Path) -> Image:
        return self._image


def made(compiler: str, flags: str, text: str, place: Path) -> Path:
    source = "passed.cc" if compiler.endswith("++") else "passed.c"
    (place / source).write_text(text)
    subprocess.run([compiler, "-g", *flags.split(), "-o", "passed", source], cwd=place, check=True, capture_output=True)
    return place / "passed"


def check(path: Path, wanted: dict[str, list[int]]) -> None:
    """Check that integer parameters which have a register are those that are wanted, and show what is passed."""
    text = ""
    for name, numbers in wanted.items():
        shown = "".join(f", args[{number}]" for number in numbers)
        text += f'pid$target:a.out:{name}:entry {{ printf("{name}{" %d" * len(numbers)}\\n"{shown}); }}\n'
    done = traced(text, path)
    assert (done.refused, done.errors) == ({}, "")
    rows = {row.split()[0]: [int(each) - 100 for each in row.split()[1:]] for row in done.lines}
    assert rows == wanted


def registers(path: Path, name: str) -> list[int | None] | None:
    found = SymbolContext(File(path)).arguments(f"pid1:a.out:{name}:entry")
    return None if found is None else [number for _, number in found]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", ["-O0", "-O2", "-O1 -gdwarf-4"])
def test_arguments_of_c_are_those_that_are_passed(compiler: str, flags: str, tmp_path: Path) -> None:
    path = made(compiler, flags, C, tmp_path)
    check(path, IN_C)
    lost = {"by_value": [0, 2], "floats": [0, 2, 4], "wide": [0, 2, 3, 5], "full": [5, 7, 8]}
    for name, numbers in lost.items():
        found = registers(path, name)
        assert found is not None and [found[number] for number in numbers] == [None] * len(numbers)


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("level", ["-O0", "-O1"])
def test_arguments_of_cpp_are_those_that_are_passed(compiler: str, level: str, tmp_path: Path) -> None:
    path = made(compiler, level, CPP, tmp_path)
    check(path, IN_CPP)
    assert registers(path, "shop::owned") in ([0, None, None], [0, None, 2])
    assert registers(path, "shop::Till::made") in ([None, None], [1, 2])
    assert registers(path, "shop::update") is None, "there are two, with different parameters"
    assert registers(path, "shop::update(long)") == [0]


def test_a_member_of_an_object_is_had_by_this_and_by_a_reference(tmp_path: Path) -> None:
    path = made("g++", "-O1", CPP, tmp_path)
    clause = 'pid$target:a.out:Till::sell:entry { printf("=%d %d\\n", args[0]->n, args[2]->n); }'
    assert [row for row in traced(clause, path).lines if row.startswith("=")] == ["=2 1"]


RUST = """#[inline(never)] pub fn hot(a: &str, n: usize) -> usize { std::hint::black_box(a.len() + n) }
mod shop { #[inline(never)] pub fn sell(n: (u8, u32), by: u64) -> u64 { std::hint::black_box(n.1 as u64 + by) } }
fn main() { println!("{}", hot("hello", 7) as u64 + shop::sell((1, 2), 3)); }
"""


def test_arguments_of_rust_are_refused_by_whatever_name_a_function_is_called(tmp_path: Path) -> None:
    (tmp_path / "passed.rs").write_text(RUST)
    subprocess.run(["rustc", "-g", "-O", "passed.rs"], cwd=tmp_path, check=True)
    world = SymbolContext(File(tmp_path / "passed"))
    linked = subprocess.run(["nm", tmp_path / "passed"], capture_output=True, text=True, check=True).stdout
    (mangled,) = re.findall(r"(_ZN\S*4shop4sell\S*)", linked)
    for name in ("passed::hot", "hot", "passed::shop::sell", "shop::sell", mangled, "*::sell", ""):
        assert world.foreign(f"pid1:a.out:{name}:entry") == "Rust"
        assert world.arguments(f"pid1:a.out:{name}:entry") is None
