# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions of C++ are found by names as programs write them, without arguments of templates that have defaults."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gilk.image.abbreviated import abbreviates
from gilk.image.elf import load
from gilk.image.lookup import matching

PROGRAM = r"""
#include <functional>
#include <map>
#include <string>
#include <vector>
template <typename T, int n = 3, typename U = std::vector<T>> struct Pool {
    __attribute__((noinline)) int take(U const &from) { return n + (int)from.size(); }
    __attribute__((noinline)) bool operator<(Pool const &other) const { return this < &other; }
};
int main(int argc, char **)
{
    std::vector<int> numbers;
    std::vector<std::vector<long>> nested(3);
    std::map<int, std::string> names;
    std::function<int(int, int)> sum = [](int a, int b) { return a + b; };
    numbers.push_back(argc);
    nested.push_back({argc});
    names[argc] = "one";
    Pool<int> pool; Pool<int, 4> other;
    return pool.take(numbers) + other.take(numbers) + sum(1, 2) + (pool < pool) + (int)names.size() < 0;
}
"""
ALLOCATED = r"std::vector<int, std::allocator<int> >::push_back\(.*"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("abbreviated") / "program.cc"
    source.write_text(PROGRAM)
    subprocess.run(["g++", "-O0", "-o", source.with_suffix(""), source], check=True)
    return source.with_suffix("")


@pytest.mark.parametrize(
    ("typed", "called"),
    [
        ("std::vector<int>::push_back", ALLOCATED),
        ("vector<int>::push_back", ALLOCATED),
        ("std::vector<int>::push_back(int const&)", r"std::vector<int, std::allocator<int> >::push_back\(int const&\)"),
        ("std::vector<std::vector<long>>::push_back", r"std::vector<std::vector<long, .*> >::push_back\(.*"),
        ("std::vector<std::vector<long> >::push_back", r"std::vector<std::vector<long, .*> >::push_back\(.*"),
        ("Pool<int>::take", r"Pool<int, [34], .*>::take\(.*"),
        ("Pool<int,4>::take", r"Pool<int, 4, .*>::take\(.*"),
        ("Pool<int>::operator<", r"Pool<int, 3, .*>::operator<\(.*"),
        ("std::function<int(int, int)>::operator()", r"std::function<int \(int, int\)>::operator\(\)\(.*"),
    ],
)
def test_arguments_of_templates_that_have_defaults_can_be_left_out(typed: str, called: str, program: Path) -> None:
    done = subprocess.run(["nm", "-C", "--defined-only", program], capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    expected = {int(row[0], 16) for row in rows if re.fullmatch(called, row[2])}
    assert expected and {span.start for span in matching(load(program), typed)} == expected


@pytest.mark.parametrize(
    "typed", ["std::vector<long>::push_back", "Pool<int, 5>::take", "Pool<>::take", "Pool<int::take"]
)
def test_other_arguments_name_other_functions(typed: str, program: Path) -> None:
    assert matching(load(program), typed) == []


@pytest.mark.parametrize("name", ["<" * 9000, "a<" * 9000 + ">" * 9000, "f<,,,>", ">>><", "f<(", "operator<<<<"])
def test_names_that_nobody_writes_are_compared_with_nothing(name: str) -> None:
    assert not abbreviates("f<int>", name) and not abbreviates(name, "f<int, long>")
