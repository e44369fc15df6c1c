# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files of aspects are accepted, or refused with the tag and the place of each mistake."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gilk.lang.aspect.tags import AT_WEAVING, WARNINGS, AspectTag
from tests.lang.aspect.files import ACCEPTED, EXAMPLES, REFUSED, checked


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_accepted_without_diagnostics(path: Path) -> None:
    found = checked(path.read_text())
    assert found.file is not None and found.file.aspects
    assert (found.errors, found.warnings) == ((), ())


def test_the_seven_examples_exist() -> None:
    names = {"accounting", "race", "chunked", "finalized", "status", "overflow", "fix"}
    assert names <= {path.stem for path in EXAMPLES}


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.name[4:-7])
def test_a_file_is_accepted(path: Path) -> None:
    found = checked(path.read_text())
    assert found.errors == () and found.file is not None


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.name[4:-7])
def test_a_mistake_is_reported_with_its_tag_and_place(path: Path) -> None:
    text = path.read_text()
    tag, at = path.name.split(".")[1], text.partition(" */\n")[0][3:]
    found = checked(text)
    told = [one for one in (*found.errors, *found.warnings) if one.tag == tag]
    assert told, (found.errors, found.warnings)
    assert text[told[0].span.start :].startswith(at), text[told[0].span.start : told[0].span.end]
    assert told[0].span.start < told[0].span.end and told[0].message
    assert {one.tag for one in found.errors} <= {tag}, "only one thing is wrong with it"
    assert (found.file is None) == (tag not in {each.value for each in WARNINGS})


def test_every_tag_has_two_mistakes_at_the_least() -> None:
    covered = Counter(path.name.split(".")[1] for path in REFUSED)
    assert set(covered) == {tag.value for tag in AspectTag if tag not in AT_WEAVING}
    assert min(covered.values()) >= 2


def test_all_mistakes_of_a_file_are_reported_in_order() -> None:
    found = checked("B: call(int f(int a)) && return(r) then { proceed(); };\nC: call(void g(void)) && return(r);")
    assert [one.tag for one in found.errors] == ["A_GROUP", "A_AFTER", "A_PROCEED", "A_GROUP", "A_TYPE"]
