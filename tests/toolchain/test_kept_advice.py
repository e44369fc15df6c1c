# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice is compiled again if, and only if, something that it is made of has changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gilk.lang.c.advice import When
from gilk.lang.c.signature import parse
from gilk.toolchain import kept_advice
from gilk.toolchain.advice import CompiledAdvice, compile_advice

TEXT = """\
#include "limit.h"
#include <stdint.h>
long a(long n) { return n > LIMIT ? (long)INT64_MAX : n; }
"""
SIGNATURE = parse("long f(long n)")
Make = Callable[..., CompiledAdvice]


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The texts that were compiled, of a cache that is empty at first; limit.h is in the directory ``tmp_path``."""
    made: list[str] = []

    def counted(source: Path, text: str, *rest: object) -> CompiledAdvice:
        made.append(text)
        return compile_advice(source, text, *rest)  # type: ignore[arg-type]

    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kept_advice, "compile_advice", counted)
    (tmp_path / "with space #1").mkdir()
    (tmp_path / "with space #1" / "in.h").write_text("#define LIMIT 7\n")
    (tmp_path / "limit.h").write_text('#include "with space #1/in.h"\n')
    return made


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def of(text: str = TEXT, when: When = When.INPLACE, declarations: str = "") -> CompiledAdvice:
        return kept_advice.kept_advice(tmp_path / "x.c", text, "a", SIGNATURE, when, declarations)

    return of


def test_kept_advice_equals_compiled_advice(compilations: list[str], make: Make, tmp_path: Path) -> None:
    first, second = make(), make()
    assert compilations == [TEXT]
    assert first == second
    assert {tmp_path / "limit.h", tmp_path / "with space #1" / "in.h"} <= set(second.files)
    assert any(file.name == "stdint.h" for file in second.files)


def test_advice_that_differs_is_compiled(compilations: list[str], make: Make) -> None:
    for differing in ({}, {"text": TEXT + "\n"}, {"when": When.BEFORE}, {"declarations": "typedef long seconds;"}):
        make(**differing)
    assert len(compilations) == 4


def test_a_header_that_changes_is_read_again(compilations: list[str], make: Make, tmp_path: Path) -> None:
    first = make()
    (tmp_path / "limit.h").write_text("#define LIMIT 8\n")
    assert make().compiled.content != first.compiled.content
    assert len(compilations) == 2


def test_a_header_that_appears_nearer_is_read(compilations: list[str], make: Make, tmp_path: Path) -> None:
    first = make()
    (tmp_path / "stdint.h").write_text("#define INT64_MAX 99\n")
    assert make().compiled.content != first.compiled.content
    make()
    assert len(compilations) == 2


def test_a_header_that_is_gone_is_missed(compilations: list[str], make: Make, tmp_path: Path) -> None:
    make()
    (tmp_path / "limit.h").unlink()
    with pytest.raises(Exception, match=r"limit\.h"):
        make()
    assert len(compilations) == 2


@pytest.mark.parametrize("word", ["__TIME__", "__has_include"])
def test_advice_that_depends_on_more_is_not_kept(compilations: list[str], make: Make, word: str) -> None:
    text = (
        TEXT + {"__TIME__": "const char *at = __TIME__;", "__has_include": '#if __has_include("x.h")\n#endif\n'}[word]
    )
    make(text=text)
    make(text=text)
    assert len(compilations) == 2
