# SPDX-License-Identifier: LGPL-2.1-or-later
"""docs/aspect: every example is checked, every diagnostic has one, and each test that paper.md names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gilk.lang.aspect.tags import AT_WEAVING, AspectTag
from tests.lang.aspect.files import checked

ROOT = Path(__file__).parents[3]
LANGUAGE = (ROOT / "docs" / "aspect" / "language.md").read_text()
PAPER = (ROOT / "docs" / "aspect" / "paper.md").read_text()
EXAMPLE = re.compile(r"^```aspect(?: (?P<tag>A_\w+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (?P<row>[PEW]\d+) \| (?P<what>.*?) \| (?P<tests>.*?) \| (?P<left>.*?) \|$", re.MULTILINE)
NAMED = re.compile(r"`(tests/[\w/.]+\.py)::(test_\w+)`")
ROWS = [*(f"P{n}" for n in range(1, 27)), *(f"E{n}" for n in range(1, 6)), "W1", "W2"]


@pytest.mark.parametrize(
    "example", [pytest.param(one, id=one["tag"] or "accepted") for one in EXAMPLE.finditer(LANGUAGE)]
)
def test_an_example_gives_the_diagnostic_that_the_page_names(example: re.Match[str]) -> None:
    found = checked(example["text"])
    assert {one.tag for one in (*found.errors, *found.warnings)} == ({example["tag"]} if example["tag"] else set())


def test_every_diagnostic_has_a_section_and_an_example() -> None:
    sections = re.findall(r"^### (A_\w+)$", LANGUAGE, re.MULTILINE)
    assert sections == [tag.value for tag in AspectTag]
    assert {one["tag"] for one in EXAMPLE.finditer(LANGUAGE)} - {None} == {
        tag.value for tag in AspectTag if tag not in AT_WEAVING
    }


def test_every_row_of_the_paper_is_on_the_page_once() -> None:
    assert [one["row"] for one in ROW.finditer(PAPER)] == ROWS


@pytest.mark.parametrize("row", [pytest.param(one, id=one["row"]) for one in ROW.finditer(PAPER)])
def test_a_row_that_names_a_test_names_an_existing_one(row: re.Match[str]) -> None:
    """A row that claims no test says what is missing."""
    claimed = NAMED.findall(row["tests"])
    assert len(claimed) == row["tests"].count("`") // 2, "a test is named `tests/file.py::test_name`"
    assert claimed or row["left"].strip(), "neither a test nor what is missing"
    for file, name in claimed:
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file} has no {name}"
