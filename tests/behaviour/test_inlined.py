# SPDX-License-Identifier: LGPL-2.1-or-later
"""An inlined function is not one that is never reached: it is said that it is inlined, and where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gilk
from gilk.errors import UsageError
from tests.behaviour.harness import run, run_gilk
from tests.programs.build import compile_text

SOURCE = r"""
#include <stdio.h>
#define IN static inline __attribute__((always_inline))
IN int gone(int x) { volatile int y = x * 3; return y + 1; }
static int both(int x) { volatile int y = x; return y * 7; }
int (*pointer)(int) = both;
__attribute__((noinline)) int work(int x) { return gone(x) + gone(x + 1); }
int main(int argc, char **argv)
{
	int sum = 0;
	(void)argv;
	for (int i = 0; i < 10; i++)
		sum += work(i) + both(i) + gone(argc);
	return printf("%d\n", sum + pointer(sum)) < 0;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return compile_text(tmp_path, "inlining", SOURCE, "-O2")


@pytest.mark.parametrize(
    "words",
    [("run", "-i", "gone:entry=count"), ("run", "-i", "gone=@path"), ("trace", "--start", "call:gone")],
    ids=" ".join,
)
def test_no_such_function_is_said_to_be_inlined(words: tuple[str, ...], program: Path, tmp_path: Path) -> None:
    done = run_gilk(*words, "-o", tmp_path / "x.parquet", "--json", "--", program)
    error = json.loads(done.stdout.splitlines()[-1])["error"]
    assert error["slug"] == "no-such-function"
    assert error["hint"].startswith("it is inlined in 3 places (")
    assert "work:+0x" in error["hint"] and "main:+0x" in error["hint"]


def test_no_such_probe_is_said_to_be_inlined(program: Path) -> None:
    done = run_gilk("dtrace", "-n", "pid$target:inlining:gone:entry", "-c", program)
    assert done.returncode == 1
    assert "does not match any probes: gone is inlined in 3 places (" in done.stderr


def test_without_debug_information_it_is_said_that_nothing_tells(tmp_path: Path) -> None:
    done = run_gilk("run", "-i", "gone:entry=count", "--", compile_text(tmp_path, "inlining", SOURCE, "-O2", "-g0"))
    assert "no such function" not in done.stderr and "(no-such-function)" in done.stderr
    assert "it may be inlined: there is no debug information to tell" in done.stderr


def test_of_a_function_that_is_there_and_inlined_too_the_report_says_what_is_not_counted(program: Path) -> None:
    done = run(["both:entry=count", "work:entry=count"], [program])
    assert done.report["counts"] == {"inlining:both:entry": 1, "inlining:work:entry": 10}
    [inlined] = done.report["inlined"]
    assert (inlined["function"], inlined["image"], inlined["places"]) == ("both", "inlining", 1)
    assert inlined["at"][0].startswith("main:+0x")
    text = run_gilk("run", "-i", "both:entry=count", "--", program).stderr
    assert "both of inlining is also inlined in 1 place (main:+0x" in text
    assert "where it is not instrumented" in text


def test_a_place_that_is_named_can_be_instrumented(program: Path) -> None:
    [inlined] = run(["both:entry=count"], [program]).report["inlined"]
    counted = run([f"{inlined['at'][0]}=count"], [program])
    assert list(counted.report["counts"].values()) == [10]


def test_nobody_looks_for_what_is_meant_by_a_pattern(program: Path) -> None:
    assert run(["b*:entry=count"], [program]).report["inlined"] == []


def test_the_api_says_so_too(program: Path) -> None:
    with gilk.launch([str(program)]) as target, pytest.raises(UsageError, match="no function 'gone'") as caught:
        target.function("gone")
    assert "inlined in 3 places" in caught.value.hint
