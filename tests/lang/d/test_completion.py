# SPDX-License-Identifier: LGPL-2.1-or-later
"""Completion at every place of real scripts: the parser judges which words may stand there."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gilk.engines.dtrace.asked import Asked, about
from gilk.engines.dtrace.completing import words
from gilk.lang.d.macros import Macros
from gilk.lang.d.parser import parse
from gilk.lang.d.writing.offered import OfferedWord, own_words
from gilk.lang.d.writing.opening import opening
from gilk.lang.syntax.source import Source
from tests.lang.d.test_parse_fuzz import TOKENS
from tests.seldom import seldom

ROOT = Path(__file__).parents[3]
SCRIPTS = sorted((ROOT / "examples" / "d").glob("*.d"))
NUMBERS = dict.fromkeys(["target", "pid", "ppid", "uid", "euid", "gid", "egid", "pgid", "sid", "projid", "taskid"], 1)
MACROS = Macros(NUMBERS, ("script",), default=True, argref=True)


def problem(text: str) -> int | None:
    """The place at which the parser stops; None if it does not."""
    found = parse(Source("test", text), MACROS)
    return None if found.program is not None else found.diagnostics[0].span.start


def may_go_on(text: str) -> bool:
    """Whether the only error in the beginning of a program is that it ends."""
    found = parse(Source("test", text), MACROS)
    return found.program is not None or "end-of-input" in found.diagnostics[0].message or _at_end(found, text)


def _at_end(found: object, text: str) -> bool:
    span = found.diagnostics[0].span  # type: ignore[attr-defined]
    return bool(span.end >= len(text.rstrip()) and "expected" in found.diagnostics[0].message)  # type: ignore[attr-defined]


@pytest.mark.parametrize("script", seldom(SCRIPTS, 4), ids=lambda path: path.name)
def test_completions_may_stand_at_their_place(script: Path) -> None:
    """This is checked at the ends of all words of a script and at other letters. With a word put in, the text before
    it can go on if it could before, and a complete program stays complete if the word is complete."""
    text = script.read_text()
    consumer = about(Asked((("n", text),)), None)
    chance = random.Random(script.name)
    offered = 0
    assert problem(text) is None
    ends = {found.end() for found in re.finditer(r"\w+|->|[@$:`(\[{;]", text)} | {0, len(text)}
    for at in sorted({*ends, *chance.sample(range(len(text)), len(text) // 4)}):
        found = words(consumer, text, at)
        assert 0 <= found.start <= at <= found.end <= len(text)
        can = may_go_on(text[: found.start])
        for word in chance.sample(found.words, min(2, len(found.words))):
            before = text[: found.start] + word.text
            assert not can or may_go_on(before), (before, word)
            if found.start < found.end and not word.goes_on:
                assert problem(before + text[found.end :]) is None, (before, word)
            offered += 1
    assert offered > 20


@pytest.mark.parametrize(
    ("text", "kind", "some"),
    [
        ("", "probe", "BEGIN tick-1s profile inline"),
        ("BEGIN, EN", "probe", "END"),
        ("BEGIN ", "nothing", ""),
        ("BEGIN {", "statement", "printf if self trace"),
        ("BEGIN { if (1) { pr", "statement", "printf printa print"),
        ("BEGIN { if (x) t", "statement", "trace"),
        ("BEGIN { if (x) trace(1); else t", "statement", "trace"),
        ("BEGIN { trace(time", "expression", "timestamp walltimestamp"),
        ("BEGIN { @a[execname] = q", "aggregating", "quantize"),
        ("BEGIN { @ = c", "aggregating", "count"),
        ("BEGIN { x = c", "expression", "copyinstr cpu caller"),
        ("BEGIN { clear(", "expression", "@a"),
        ("BEGIN { x = (int)ar", "expression", "arg0 args"),
        ("BEGIN { x y", "nothing", ""),
        ('BEGIN { trace("exe', "nothing", ""),
        ('BEGIN { trace("exe" exe', "nothing", ""),
        ("/* BEG", "nothing", ""),
        ("/* x */ BEG", "probe", "BEGIN"),
        ("BEGIN / pid == ti", "expression", "tid timestamp"),
        ("BEGIN /pid / 2 == ti", "expression", "tid"),
        ("BEGIN /pid / 2/ { ti", "statement", "tid"),
        ("BEGIN { $tar", "macro", "$target"),
        ("BEGIN { $", "macro", "$target $pid"),
        ("BEGIN { @", "aggregation", "@a"),
        ("BEGIN { self->", "scoped", "mine"),
        ("BEGIN { this->o", "scoped", "own"),
        ("#pragma D option qu", "nothing", ""),
        ("int64", "probe", ""),
        ("struct s { in", "type", "int int32_t"),
        ("inline int x = ar", "expression", "arg0"),
        ("typedef unsi", "type", "unsigned"),
        ("BEGIN { x = 12", "nothing", ""),
        ("BEGIN { g->", "member", "first inner second"),
        ("BEGIN { g->first.", "member", ""),
        ("BEGIN { (*g).fi", "member", "first"),
        ("BEGIN { g->second->", "member", "first inner"),
        ("BEGIN { if (pid) { trace(g[0].", "member", "first"),
        ("BEGIN { x = curps", "expression", "curpsinfo"),
        ("BEGIN { x = curpsinfo->pr_", "member", "pr_pid pr_fname"),
        ("pid1:a.out:ns::f:en", "probe", "entry"),
    ],
)
def test_completions_at_typical_places(text: str, kind: str, some: str) -> None:
    """The program declares a few things, and is complete except for the place in question."""
    rest = """
        struct s { int first; struct { int inner; }; struct s *second; };
        struct s *g;
        BEGIN { self->mine = 1; this->own = "x"; @a = count(); }
    """
    whole = rest + text
    found = words(about(Asked((("n", whole),)), None), whole, len(whole))
    assert found.kind == kind
    offered = {word.text for word in found.words}
    assert set(some.split()) <= offered, offered


def test_options_are_offered_where_the_line_ends() -> None:
    text = "#pragma D option qu\nBEGIN { }"
    found = words(about(Asked((("n", text),)), None), text, text.index("\n"))
    assert [word.text for word in found.words] == ["quiet", "quietresize"]


@settings(max_examples=150)
@example([",", ".", "BEGIN", "BEGIN"], "", 0.5)  # a member of nothing
@given(
    st.lists(st.sampled_from(TOKENS), max_size=30),
    st.sampled_from(["", "BEGIN { ", "BEGIN /", "x[", "struct s { "]),
    st.floats(0, 1),
)
def test_completion_works_at_any_place_of_any_text(tokens: list[str], before: str, share: float) -> None:
    text = before + " ".join(tokens)
    at = int(share * len(text))
    there = opening(text, at)
    assert 0 <= there.start <= at <= there.end <= len(text)
    assert all(isinstance(word, OfferedWord) for word in own_words(there))
    found = words(about(Asked((("n", text),)), None), text, at)
    assert (found.start, found.end) == (there.start, there.end)


@settings(max_examples=100)
@given(st.text(max_size=200), st.integers(-5, 300))
def test_completion_works_with_any_characters(text: str, at: int) -> None:
    there = opening(text, at)
    assert there.prefix == text[there.start : max(0, min(at, len(text)))]


@pytest.mark.parametrize(
    "text",
    seldom([
        "BEGIN { " + "(" * 100_000, "BEGIN { x" + "->y" * 60_000 + "->", "struct s { " * 20_000,
        '"' * 200_000, "pid1:a::" + "b::" * 60_000,
        "BEGIN { " + "if (1) {" * 30_000, "BEGIN /" + "/ " * 100_000, "BEGIN { " + "a" * 200_000, "/*" * 100_000,
        "@" * 200_000, "BEGIN { x" + "[1]" * 60_000 + ".", "`" * 200_000, "$" * 200_000, ":" * 200_000, "/" * 200_000,
        "\\\n" * 100_000, "#" * 200_000, "BEGIN,\n" * 30_000,
    ], 5),
    ids=lambda text: text[:12],
)  # fmt: skip
def test_completion_takes_time_linear_in_the_length(text: str) -> None:
    """A text ten times as long must not take a hundred times as long, in processor time."""

    def took(part: str) -> float:
        begun = time.process_time()
        opening(part, len(part))
        return time.process_time() - begun

    short = min(took(text[: len(text) // 10]) for _ in range(3))
    assert took(text) < 40 * short + 1
