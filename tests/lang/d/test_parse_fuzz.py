# SPDX-License-Identifier: LGPL-2.1-or-later
"""The parser returns for any text, and can write again what it accepts."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gilk.lang.d import unparse
from tests.lang.d.programs import SCRIPTS, parsed, plain

TEXTS = [path.read_text() for path in SCRIPTS]
WORDS = """
BEGIN END syscall::read:entry tick-1s int char struct union enum string self this typedef inline translator provider
probe extern const unsigned if else sizeof stringof offsetof xlate x y foo_t size_t @a @ $1 $$1 $target 1 0x2 'c' "s"
{ } ( ) [ ] ; , / : ? . -> ++ -- + - * % & | ^ ~ ! < > << >> <= >= == != && || ^^ = += ... ` while /*c*/
"""
TOKENS = [*WORDS.split(), "\n#pragma D option quiet\n", "\n#line 3\n"]
OPERATORS = "+ - * / % & | ^ << >> < > <= >= == != && || ^^ , = +="


def check(text: str) -> None:
    found = parsed(text)
    assert (found.program is None) == bool(found.diagnostics)
    for one in found.diagnostics:
        assert one.message and 0 <= one.span.start <= one.span.end <= len(text)
    if found.program is not None:
        again = parsed(unparse.program(found.program))
        assert again.program is not None, again.diagnostics
        assert plain(again.program.items) == plain(found.program.items)


@settings(max_examples=80)
@given(st.binary(max_size=200))
def test_the_parser_returns_for_any_bytes(data: bytes) -> None:
    check(data.decode("utf-8", "surrogateescape"))


@settings(max_examples=80)
@given(st.text(max_size=200), st.sampled_from(["", "BEGIN {", "int ", "BEGIN /", "#", "syscall"]))
def test_the_parser_returns_for_any_text(text: str, before: str) -> None:
    check(before + text)


@settings(max_examples=150)
@given(st.lists(st.sampled_from(TOKENS), max_size=40), st.sampled_from(["", "BEGIN { ", "x[", "struct s { "]))
def test_the_parser_returns_for_any_tokens(words: list[str], before: str) -> None:
    check(before + " ".join(words))


LEAVES = ["1", "x", "'c'", '"s"', "self->x", "@a[1]", "k`x", "$1", "sizeof (int)", "f()", "x.self", "this->y"]
PREFIXES = ["-", "!", "~", "*", "&", "++", "(int)", "(foo_t *)", "sizeof ", "stringof ", "(size_t)"]
SHAPES = ["({})", "({})++", "f({}, ({}))", "({})[{}]->m.n", "{} ? {} : {}", "xlate <int> ({})", "@a[({})]"]


def expression(chance: random.Random, depth: int) -> str:
    if depth == 0:
        return chance.choice(LEAVES)
    match chance.randrange(3):
        case 0:
            return f"{chance.choice(PREFIXES)} {expression(chance, depth - 1)}"
        case 1:
            left, right = expression(chance, depth - 1), expression(chance, depth - 1)
            return f"{left} {chance.choice(OPERATORS.split())} {right}"
    shape = chance.choice(SHAPES)
    return shape.format(*(expression(chance, depth - 1) for _ in range(shape.count("{"))))


@settings(max_examples=120)
@given(st.randoms(use_true_random=False), st.integers(0, 4))
def test_any_expression_is_parsed_and_written_again(chance: random.Random, depth: int) -> None:
    text = expression(chance, depth)
    check(f"BEGIN / {text} / {{ {text}; }}")
    check(f"BEGIN {{ {text}; }}")


@settings(max_examples=80)
@given(st.sampled_from(TEXTS), st.randoms(use_true_random=False), st.integers(1, 5))
def test_the_parser_returns_for_any_damaged_script(text: str, chance: random.Random, times: int) -> None:
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
                text = text[:at]
    check(text)


HOSTILE = '( a+ { ; a " / /**/ 1 @ a: - #~ a~ int~ * [ \\ $ ~ x; @=count();'


@pytest.mark.parametrize("piece", [*HOSTILE.replace("~", "\n").split(" "), " ", "\t:"])
@pytest.mark.parametrize("before", ["", "BEGIN { ", "BEGIN /", "int ", "int x["])
def test_large_texts_are_parsed_in_bounded_time(before: str, piece: str) -> None:
    started = time.process_time()
    assert parsed(before + piece * (60_000 // len(piece))) is not None
    assert time.process_time() - started < 60  # seconds; a fraction of one here
