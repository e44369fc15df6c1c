# SPDX-License-Identifier: LGPL-2.1-or-later
"""-h and -G, as a makefile written for dtrace runs them, and the messages if that cannot work."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gilk.cli.main import main

#: Returns the status, and the text on standard error.
Dtrace = Callable[..., tuple[int, str]]
PROVIDER = "provider app { probe start(); probe end(int); };\n"
USES = '#include "app.h"\nint main(void) { APP_START(); if (APP_END_ENABLED()) APP_END(1); return 0; }\n'


@pytest.fixture
def dtrace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Dtrace:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.d").write_text(PROVIDER)
    (tmp_path / "app.c").write_text(USES)

    def run(*words: object) -> tuple[int, str]:
        return main(["dtrace", *map(str, words)]), capsys.readouterr().err

    return run


def test_a_program_with_usdt_probes_is_built_by_a_makefile(dtrace: Dtrace, tmp_path: Path) -> None:
    def step(*words: str) -> str:
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert dtrace("-h", "-s", "app.d") == (0, "")
    step("gcc", "-c", "app.c")
    assert dtrace("-G", "-s", "app.d", "app.o", "-o", "probes.o") == (0, "")
    assert "REL (Relocatable file)" in step("readelf", "-h", "probes.o")
    step("gcc", "-Wl,--fatal-warnings", "app.o", "probes.o", "-o", "app")
    assert re.findall(r"Name: (\S+)", step("readelf", "-nW", "app")) == ["start", "end"]
    assert re.search(r"GNU_STACK\s.*RW ", step("readelf", "-lW", "app"))
    step("./app")


def test_the_output_file_is_named_by_option_or_script(dtrace: Dtrace, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "other.d").write_text(PROVIDER)
    assert dtrace("-h", "-s", "below/other.d", "-o", "named.hh") == (0, "")
    assert "#ifndef _NAMED_HH\n" in (tmp_path / "named.hh").read_text()
    dtrace("-h", "-s", "below/other.d")
    dtrace("-G", "-s", "below/other.d")
    dtrace("-G", "-n", PROVIDER)
    assert {path.name for path in tmp_path.iterdir()} >= {"other.h", "other.o", "d.out"}


def test_errors_of_headers_and_objects_are_reported(dtrace: Dtrace, tmp_path: Path) -> None:
    (tmp_path / "foreign.c").write_text("void __dtrace_app___start(void); void f(void) { __dtrace_app___start(); }\n")
    subprocess.run(["gcc", "-c", "foreign.c"], cwd=tmp_path, check=True)
    (tmp_path / "bad.d").write_text("provider bad { probe a(nothing_t); };\n")
    (tmp_path / "struct.d").write_text("struct s { int x; };\nprovider p { probe a(struct s); };\n")
    for words, said in (
        (["-G", "-s", "app.d", "foreign.o"], "foreign.o calls __dtrace_app___start"),
        (["-G", "-s", "app.d", "none.o"], "cannot read none.o: No such file or directory"),
        (["-h", "-s", "app.d", "-o", "/nowhere/app.h"], "/nowhere/app.h: No such file or directory"),
        (["-h", "-s", "app.d", "-s", "bad.d"], "failed to compile script bad.d: line 1: "),
        (["-h", "-s", "app.d", "-n", "BEGIN"], "-h requires an output file"),
        (["-h", "-s", "struct.d"], "probe a of provider p gives a struct s"),
        (["-h", "-l", "-s", "app.d"], "only one of -G, -h and -l"),
        (["-h"], "there is no program"),
    ):
        status, told = dtrace(*words)
        assert (status in (1, 2), said in told, "Traceback" in told) == (True, True, False), told
