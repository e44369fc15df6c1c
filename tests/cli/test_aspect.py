# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk aspect check`` as a user sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gilk.cli.main import main

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "aspects").glob("*.aspect"))


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.aspect"
    path.write_text("group A;\nB: call(void f(int a));\nA: call(int f(int a)) && return(r) then { };\n")
    return path


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_aspect_check_accepts_an_example(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["aspect", "check", str(path)]) == 0
    said = capsys.readouterr()
    assert said.err == "" and said.out.startswith(f"{path}: 1 aspect, ")


def test_mistakes_are_printed_with_tag_line_and_hint(wrong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["aspect", "check", str(wrong)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    assert lines[0] == f"gilk: failed to compile {wrong}: [A_GROUP] line 2: there is no group B"
    assert lines[1].startswith("  group B;")
    assert lines[2].startswith(f"gilk: failed to compile {wrong}: [A_AFTER] line 3: ")


def test_mistakes_are_printed_as_json(wrong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["aspect", "check", str(wrong), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["accepted"], found["aspects"], found["warnings"]) == (False, [], [])
    text = wrong.read_text()
    first = found["errors"][0]
    assert (first["tag"], first["line"], first["column"], text[first["start"] : first["end"]]) == ("A_GROUP", 2, 1, "B")


def test_json_lists_the_state_that_an_aspect_keeps(capsys: pytest.CaptureFixture[str]) -> None:
    path = next(each for each in EXAMPLES if each.stem == "finalized")
    assert main(["aspect", "check", "--json", str(path)]) == 0
    (aspect,) = json.loads(capsys.readouterr().out)["aspects"]
    assert (aspect["elements"], aspect["sequence"]) == (3, True)
    assert aspect["keeps"] == [{"name": "s", "type": "void *", "size": 8}]


def test_warnings_are_printed_and_the_exit_status_is_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "leaks.aspect"
    path.write_text("seq(call(void f(int a)); call(void g(int a)));")
    assert main(["aspect", "check", str(path)]) == 0
    said = capsys.readouterr()
    assert f"gilk: warning: {path}: [A_LEAK] line 1: " in said.err and "1 aspect, 2 elements" in said.out


def test_a_missing_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["aspect", "check", str(tmp_path / "none.aspect")]) != 0
    assert "No such file" in capsys.readouterr().err


def test_bytes_that_are_no_text_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bytes.aspect"
    path.write_bytes(b"call(void \xff\xfe(int a));\x00\x1b[31m")
    assert main(["aspect", "check", str(path)]) == 1
    assert "A_SIGNATURE" in (told := capsys.readouterr().err) and "\x1b" not in told


def test_a_file_without_an_end_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Also by the commands that weave, before they touch a process."""
    for command in (["aspect", "check", "/dev/zero"], ["weave", "/dev/zero", "-p", "1"]):
        assert main(command) == 2
        assert "more than 4 million characters (too-long)" in capsys.readouterr().err
