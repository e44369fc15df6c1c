# SPDX-License-Identifier: LGPL-2.1-or-later
"""The checker: the tag of every mistake, and where it is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from gilk.engines.dtrace.compiled import Compiled, DoesNotCompile, ProgramText, compile_programs
from gilk.lang.d.macros import Macros
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.d.options import Options
from gilk.lang.d.printf import PrintfTag
from gilk.lang.syntax.source import Source
from tests.lang.d.programs import HERE
from tests.lang.d.worlds import Known

ERRORS = sorted(HERE.glob("meaning/err.*.d"))


def compiled(text: str) -> Compiled:
    return compile_programs([ProgramText("script", Source("test", text))], Macros({}, ("test",)), Options(), Known())


@pytest.mark.parametrize("path", ERRORS, ids=lambda path: path.name[4:-2])
def test_a_mistake_is_refused_with_its_tag(path: Path) -> None:
    with pytest.raises(DoesNotCompile) as caught:
        compiled(path.read_text())
    wrong = caught.value.wrong
    assert wrong.diagnostic.tag == path.name.split(".")[1]
    assert wrong.diagnostic.message
    assert wrong.line == 2


def test_every_tag_has_a_test_program() -> None:
    covered = {path.name.split(".")[1] for path in ERRORS}
    assert covered == {*(tag.value for tag in Tag), PrintfTag.ARG_FMT.value}
