# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tables line up, and nothing a target names can steer the terminal."""

from __future__ import annotations

import re

import pytest

from gilk.render.text import cell, nanoseconds, plural, table


def test_columns_are_aligned_with_numbers_to_the_right() -> None:
    text = table(("count", "point"), [(5, "f:entry"), (12345678, "g"), (None, "")], terminal=False)
    assert text == "   count  point\n       5  f:entry\n12345678  g\n\n"


def test_a_table_for_a_terminal_has_the_same_words() -> None:
    text = table(("count", "point"), [(5, "operator[](int)"), (6, "[bold]x[/bold]")], terminal=True)
    bare = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert "\x1b[" in text
    assert [line.split() for line in bare.splitlines()] == [
        ["count", "point"],
        ["5", "operator[](int)"],
        ["6", "[bold]x[/bold]"],
    ]


@pytest.mark.parametrize("terminal", [False, True])
def test_control_characters_are_shown_escaped(terminal: bool) -> None:
    text = table(("name",), [("a\x1b[2Jb\nc\x9b",)], terminal)
    assert "a\\x1b[2Jb\\x0ac\\x9b" in text
    assert cell("\r") == "\\x0d"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0ns"), (999, "999ns"), (1000, "1us"), (1234, "1.23us"), (999_999, "1000us"), (5_000_000_000_000, "5000s")],
)
def test_durations_have_three_digits_and_a_unit(value: int, text: str) -> None:
    assert nanoseconds(value) == text


def test_plurals_of_nouns() -> None:
    assert [plural(n, "process") for n in (0, 1, 2)] == ["0 processes", "1 process", "2 processes"]
