# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names come from other users' programs, files and threads; gilk shows characters that a terminal would obey, but
never sends them to it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.behaviour.harness import run_gilk
from tests.security.partner import Partner, built, open_place

_NAME = "a\x1b]0;of theirs\x07b"


@pytest.fixture(scope="module")
def program() -> Iterator[Path]:
    with open_place() as place:
        yield built(place, "fdswap").rename(place / _NAME)


def sent(*words: str | Path) -> str:
    """Everything that a command prints."""
    done = run_gilk(*words, stdin=subprocess.DEVNULL, timeout=240)
    return done.stdout + done.stderr


def is_harmless(text: str) -> bool:
    return "\\x1b]0;of theirs\\x07b" in text and not set(text) & {"\x1b", "\x07", "\x9b"}


@pytest.mark.parametrize("words", [("scan",), ("cfg", "work"), ("cfg", "no-such-function")])
def test_control_characters_in_names_of_a_file_are_escaped(words: tuple[str, ...], program: Path) -> None:
    text = sent(words[0], program, *words[1:])
    assert not set(text) & {"\x1b", "\x07", "\x9b"}
    assert is_harmless(text) or words[-1] == "work"


def test_control_characters_in_the_name_of_a_missing_file_are_escaped(program: Path) -> None:
    assert is_harmless(sent("scan", program.with_name(_NAME + "x")))


def test_control_characters_in_a_process_name_are_escaped_in_reports(program: Path) -> None:
    assert is_harmless(sent("run", "-i", "a*:main:entry=count", "--", program, "nothing", "/"))


def test_control_characters_in_a_process_name_are_escaped_in_errors(program: Path) -> None:
    with Partner(program, "nothing", "/") as partner:
        assert is_harmless(sent("run", "-i", "a*:no-such-function:entry=count", "-p", str(partner.pid)))


def test_records_of_a_program_whose_name_is_not_utf_8_are_kept(program: Path, tmp_path: Path) -> None:
    named, out = program.with_name("a\udcffb"), tmp_path / "records.parquet"
    named.hardlink_to(program)
    text = sent("run", "-i", "a*:main:entry=stamp", "-o", out, "--", named, "nothing", "/")
    assert "1 record in" in text, text
    assert "a\\udcffb:main:entry" in sent("query", out, "select point from samples")
