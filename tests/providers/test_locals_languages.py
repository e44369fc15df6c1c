# SPDX-License-Identifier: LGPL-2.1-or-later
"""Variables of functions in C++ and Rust; gdb is the oracle: it stops at the same lines."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from gilk.engines.dtrace.compiled import DoesNotCompile
from tests.providers.sessions import traced

CPP = r"""
static volatile long sink;
namespace shop {
struct Item { int n; long price; };
struct Base { int base = 41; };
namespace deep {
int twice(int x)
{
	int k = x * 2;
	sink = k; /* twice */
	return k;
}
}
class Till : public Base {
public:
	explicit Till(int start) : total(start)
	{
		sink = start; /* constructor */
	}
	virtual ~Till() = default;
	virtual int sell(const Item &item, int &change, long count, Item &&moved);
	static int of_class(int only)
	{
		int k = only + 1;
		sink = k; /* static */
		return k;
	}
	int total;
private:
	long sold = 5;
};
__attribute__((noinline)) int Till::sell(const Item &item, int &change, long count, Item &&moved)
{
	int k = item.n + 1;
	sink = k; /* outer */
	for (int i = 0; i < 2; i++) {
		long k = count * 10 + i;
		sink = k; /* middle */
		{
			short k = static_cast<short>(70 + i);
			sink = k; /* inner */
		}
	}
	auto add = [&](int by) {
		sink = by + k; /* lambda */
		return by + total;
	};
	int got = add(3);
	change = total - k;
	int &same = got;
	same += moved.n;
	sink = got; /* end */
	return total + got;
}
template <typename T> T larger(T a, T b)
{
	T found = a < b ? b : a;
	sink = static_cast<long>(found); /* template */
	return found;
}
}
namespace {
int hidden(int unnamed)
{
	sink = unnamed; /* unnamed */
	return unnamed;
}
}
int main()
{
	int change = 0, sum = 0;
	for (int n = 1; n <= 3; n++) {
		shop::Till till(100 * n);
		shop::Item item = { n, n * 100 };
		sum += till.sell(item, change, n, shop::Item { 7 - n, 1 }) + shop::deep::twice(n);
		sum += static_cast<int>(shop::larger<long>(n, 2)) + shop::Till::of_class(n) + hidden(n);
	}
	return sum < 0;
}
"""
#: By the comment of a line: expressions of D, each with what gdb calls it.
IN_CPP: dict[str, list[tuple[str, str]]] = {
    "twice": [("local`x", "x"), ("local`k", "k")],
    "constructor": [("local`start", "start"), ("local`this->total", "this->total")],
    "static": [("local`only", "only"), ("local`k", "k")],
    "outer": [
        ("local`k", "k"), ("sizeof (local`k)", "sizeof (k)"), ("local`this->total", "total"),
        ("local`this->sold", "this->sold"), ("local`item->n", "item.n"), ("local`item->price", "item.price"),
        ("*local`change", "change"), ("local`count", "count"), ("local`moved->n", "moved.n"),
    ],
    "middle": [("local`k", "k"), ("sizeof (local`k)", "sizeof (k)"), ("local`i", "i")],
    "inner": [("local`k", "k"), ("sizeof (local`k)", "sizeof (k)"), ("local`i", "i")],
    "lambda": [("local`by", "by")],
    "end": [("local`got", "got"), ("*local`same", "same"), ("local`k", "k"), ("*local`change", "change")],
    "template": [("local`found", "found"), ("local`a", "a"), ("sizeof (local`b)", "sizeof (b)")],
    "unnamed": [("local`unnamed", "unnamed")],
}  # fmt: skip

RUST = r"""
use std::hint::black_box;
pub struct Inner { deep: i64 }
pub struct Till { total: i32, sold: u64, inner: Inner }
pub enum Kind { Small(i32), Large { size: u64 } }
mod shop {
    pub fn twice(x: i32) -> i32 {
        let k = x * 2;
        super::black_box(k); // twice
        k
    }
}
impl Till {
    #[inline(never)]
    pub fn sell(&mut self, pair: (i32, u8), name: &str, kind: Kind, count: u64) -> i32 {
        let k = pair.0 + 1;
        black_box(k); // outer
        {
            let k = count * 10;
            black_box(k); // inner
            self.sold += k;
        }
        let size = match kind { Kind::Small(n) => n as u64, Kind::Large { size } => size };
        let (left, right) = (k * 2, size + 1);
        self.total += left;
        black_box((left, right, name.len())); // end
        self.total + k
    }
    pub fn own(self) -> i64 {
        let numbers = [self.inner.deep, 2, 3];
        black_box(numbers[1]); // own
        numbers[0]
    }
}
fn closed(base: i32) -> i32 {
    let add = |by: i32| {
        let sum = by + base;
        black_box(sum); // closure
        sum
    };
    add(3)
}
fn main() {
    let mut till = Till { total: 100, sold: 0, inner: Inner { deep: -5 } };
    let mut sum = 0;
    for n in 1..4 {
        let kind = if n == 2 { Kind::Large { size: 9 } } else { Kind::Small(n) };
        sum += till.sell((n, 7), "abc", kind, n as u64) + closed(n) + shop::twice(n);
    }
    println!("{} {}", sum, till.own());
}
"""
IN_RUST: dict[str, list[tuple[str, str]]] = {
    "twice": [("local`x", "x"), ("local`k", "k")],
    "outer": [
        ("local`k", "k"), ("local`self->total", "self.total"),
        ("local`self->inner.deep", "self.inner.deep"), ("local`pair.__0", "pair.0"), ("local`pair.__1", "pair.1"),
        ("local`name.length", "name.length"), ("local`count", "count"),
    ],
    "inner": [("local`k", "k"), ("local`self->sold", "self.sold")],
    "end": [("local`left", "left"), ("local`right", "right"), ("local`size", "size")],
    "own": [("local`self.inner.deep", "self.inner.deep"), ("local`numbers[0]", "numbers[0]")],
    "closure": [("local`by", "by"), ("local`sum", "sum")],
}  # fmt: skip
Values = dict[str, list[list[int]]]


def lines(source: Path) -> dict[str, int]:
    """The numbers of the lines that end in a comment, by that."""
    found: dict[str, int] = {}
    for number, row in enumerate(source.read_text().splitlines(), 1):
        comment = re.search(r"/\* (\w+) \*/|; // (\w+)$", row)
        if comment is not None:
            found[comment[1] or comment[2]] = number
    return found


def by_gdb(path: Path, source: Path, wanted: dict[str, list[tuple[str, str]]]) -> Values:
    at, words = lines(source), ["gdb", "-nx", "-batch", "-ex", "set pagination off"]
    for name, pairs in wanted.items():
        shown = "".join(f",{theirs}" for _, theirs in pairs)
        words += ["-ex", f'dprintf {source.name}:{at[name]},"at {name}{" %ld" * len(pairs)}\\n"{shown}']
    done = subprocess.run([*words, "-ex", "run", path], capture_output=True, text=True, timeout=300)
    return values(done.stdout.splitlines())


def values(rows: list[str]) -> Values:
    found: Values = defaultdict(list)
    for row in rows:
        seen = re.search(r"\bat (\w+)((?: -?\d+)+)$", row)
        if seen is not None:
            found[seen[1]].append([int(each) for each in seen[2].split()])
    return dict(found)


def by_gilk(path: Path, source: Path, wanted: dict[str, list[tuple[str, str]]]) -> Values:
    at, text = lines(source), ""
    for name, pairs in wanted.items():
        shown = "".join(f", (long)({ours})" for ours, _ in pairs)
        text += f"pid$target:a.out:{source.name}:{at[name]} "
        text += f'{{ printf("at {name}{" %d" * len(pairs)}\\n"{shown}); }}\n'
    done = traced(text, path)
    assert (done.refused, done.errors, done.restored) == ({}, "", True)
    return values(done.lines)


def check(path: Path, source: Path, wanted: dict[str, list[tuple[str, str]]]) -> None:
    shown = by_gdb(path, source, wanted)
    assert set(shown) == set(wanted), "gdb stops at each of the lines"
    assert by_gilk(path, source, wanted) == shown


def made(command: list[str], text: str, source: Path) -> Path:
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]} here")
    source.write_text(text)
    subprocess.run([*command, "-g", "-o", "shop", source.name], cwd=source.parent, check=True, capture_output=True)
    return source.parent / "shop"


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_variables_of_cpp_have_the_values_that_gdb_shows(compiler: str, tmp_path: Path) -> None:
    source = tmp_path / "shop.cc"
    check(made([compiler, "-O0"], CPP, source), source, IN_CPP)


def test_variables_of_rust_have_the_values_that_gdb_shows(tmp_path: Path) -> None:
    source = tmp_path / "shop.rs"
    check(made(["rustc"], RUST, source), source, IN_RUST)


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_this_references_and_parameters_are_had_at_the_entry_of_optimized_methods(
    compiler: str, tmp_path: Path
) -> None:
    path = made([compiler, "-O1"], CPP, tmp_path / "shop.cc")
    shown = "local`this->total, local`item->n, local`count, local`moved->n"
    text = f'pid$target:a.out:shop::Till::sell:entry {{ printf("at sell %d %d %d %d\\n", {shown}); }}'
    assert values(traced(text, path).lines) == {"sell": [[100 * n, n, n, 7 - n] for n in (1, 2, 3)]}


def test_self_is_had_at_the_entry_of_optimized_methods_and_a_tuple_in_two_registers_is_refused(tmp_path: Path) -> None:
    path = made(["rustc", "-O"], RUST, tmp_path / "shop.rs")
    text = 'pid$target:a.out:shop::Till::sell:entry { printf("at sell %d %d\\n", local`self->total, local`count); }'
    assert values(traced(text, path).lines) == {"sell": [[100, 1], [104, 2], [110, 3]]}
    for name in ("pair", "name"):
        with pytest.raises(DoesNotCompile, match=r"\(in-pieces\)"):
            traced(f"pid$target:a.out:shop::Till::sell:entry {{ trace(sizeof (local`{name})); }}", path)


@pytest.mark.parametrize(
    ("where", "name", "why"),
    [
        ("shop::Till::sell:entry", "pair", "not-stored-yet"),
        ("shop::Till::sell:entry", "k", "not-in-scope"),
        ("shop::Till::sell:return", "right", "not-in-scope"),
        ("closed:entry", "by", "not-in-scope"),
    ],
)
def test_variables_of_rust_that_are_not_there_are_refused_by_name(
    where: str, name: str, why: str, tmp_path: Path
) -> None:
    path = made(["rustc"], RUST, tmp_path / "shop.rs")
    with pytest.raises(DoesNotCompile, match=rf"\({why}\)"):
        traced(f"pid$target:a.out:{where} {{ trace(sizeof (local`{name})); }}", path)
