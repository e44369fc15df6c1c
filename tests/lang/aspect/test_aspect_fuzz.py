# SPDX-License-Identifier: LGPL-2.1-or-later
"""For any text, the checker returns the checked form, or the errors."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gilk.lang.aspect.tags import AspectTag
from tests.lang.aspect.files import ACCEPTED, EXAMPLES, REFUSED, checked

TEXTS = [path.read_text() for path in (*EXAMPLES, *ACCEPTED, *REFUSED)]
WORDS = """
group A K : ; , = types table t key ( ) sum pointcut p aspect perthread unique instances 9 var int char * a b void long
double _Complex struct x seq call readGlobal writeGlobal read write controlflow controlflowstar f libc: mem* ` .. ...
&& || return value old size offset args bind if from in then before inplace after { } [ ] until within 2s 0 "s" 'c' " '
/* */ // %{ %K{ %} @ # $ \\ self string this proceed() pid() == ! . -> _ \x00 é
"""
TOKENS = [*WORDS.split(), "\n", "call(void f(int a))", "A: ", "&& if (a)", "then { g(a); }"]


def check(text: str) -> None:
    found = checked(text)
    assert (found.file is None) == bool(found.errors)
    for one in (*found.errors, *found.warnings):
        assert AspectTag(one.tag) and one.message
        assert 0 <= one.span.start <= one.span.end <= len(text)


@settings(max_examples=80)
@given(st.binary(max_size=200))
def test_the_checker_returns_for_any_bytes(data: bytes) -> None:
    check(data.decode("utf-8", "surrogateescape"))


@settings(max_examples=100)
@given(
    st.text(max_size=200),
    st.sampled_from(["", "call(", "seq(call(void f(int a));", "%{", "group ", "call(void f(a)) &&"]),
)
def test_the_checker_returns_for_any_text(text: str, before: str) -> None:
    check(before + text)


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(TOKENS), max_size=40),
    st.sampled_from(["", "seq(", "call(void f(", "A: call(int f(int a)) "]),
)
def test_the_checker_returns_for_any_tokens(words: list[str], before: str) -> None:
    check(before + " ".join(words))


@settings(max_examples=300)
@given(st.sampled_from(TEXTS), st.randoms(use_true_random=False), st.integers(1, 4))
def test_the_checker_returns_for_any_damaged_file(text: str, chance: random.Random, times: int) -> None:
    for _ in range(times):
        at = chance.randrange(len(text) + 1)
        match chance.randrange(4):
            case 0:
                text = text[:at] + text[at + chance.randrange(1, 9) :]
            case 1:
                text = text[:at] + f" {chance.choice(TOKENS)} " + text[at:]
            case 2:
                text = text[:at] + chance.choice(TEXTS)[chance.randrange(100) :][:50] + text[at:]
            case 3:
                text = text[:at] + text[at:].replace(*chance.sample(TOKENS, 2), 1)
    check(text)


@settings(max_examples=100)
@given(st.sampled_from(TEXTS), st.randoms(use_true_random=False))
def test_the_checker_returns_for_any_truncated_file(text: str, chance: random.Random) -> None:
    check(text[: chance.randrange(len(text))])


HOSTILE = [
    "(",
    "a ",
    "a",
    "*",
    ";",
    '"',
    "/",
    "/**/",
    "//\n",
    "{",
    "`",
    "seq(",
    "call(",
    "A,",
    "A:",
    "9",
    "&&",
    "[",
    "\\",
    "%{ %}",
    "-",
]
BEFORE = ["", "call(", "call(void f(", "call(void f(int a)) && if (", "call(void f(int a)) then {", "seq(", "%{"]


@pytest.mark.parametrize("before", BEFORE)
def test_large_files_are_checked_in_bounded_time(before: str) -> None:
    started = time.process_time()
    for piece in HOSTILE:
        check(before + piece * (20_000 // len(piece)))
    assert time.process_time() - started < 60


def test_too_many_ways_to_match_are_refused() -> None:
    """Each pointcut has twice as many alternatives as the one before: the text is short, its meaning is not."""
    lines = ["pointcut p0() = (call(void f(void)) || call(void g(void)));"]
    lines += [f"pointcut p{n}() = (p{n - 1}() || p{n - 1}());" for n in range(1, 40)]
    found = checked("\n".join([*lines, "p39();"]))
    assert [one.tag for one in found.errors] == ["A_SYNTAX"]
