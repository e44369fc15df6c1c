# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk aspect explain``: text and JSON agree; errors of a file have names and leave no traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gilk.cli.main import main
from gilk.engines.aspect.emitted import emitted
from gilk.lang.aspect.code.unit import WOVEN
from gilk.toolchain.advice import compile_advice

EXAMPLES = Path(__file__).parents[2] / "examples" / "aspects"
SOUND = "group A; seq(A: call(void f(int k)); A: call(void g(int k)));\n"


def explain(*arguments: object) -> int:
    return main(["aspect", "explain", *map(str, arguments)])


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    path = tmp_path / "sound.aspect"
    path.write_text(SOUND)
    return path


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in sorted(EXAMPLES.glob("*.aspect"))])
def test_every_example_is_explained_and_run_on_its_events(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(path, "--events", path.with_suffix(".events")) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("#1: ") and "matches" in printed.out.splitlines()[-1] and not printed.err


def test_json_has_the_same_content_as_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(EXAMPLES / "race.aspect", "--events", EXAMPLES / "race.events", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    (race,) = found["automata"]
    assert [one["keys"] for one in race["elements"]] == [[], ["dev", "ino"], ["path", "tid"]]
    assert found["counts"]["#1"]["ended"] == 2 and found["accepted"]
    deeds = [deed["did"] for event in found["events"] for deed in event["deeds"]]
    assert "denies" in deeds and "skipped" not in deeds


def test_warnings_are_printed_besides_the_explanation(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(sound) == 0
    printed = capsys.readouterr()
    assert "A_LEAK" in printed.err and printed.out.startswith("#1: a sequence of 2")


def test_a_file_with_errors_is_not_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "wrong.aspect"
    wrong.write_text("A: call(void f(int k));")
    assert explain(wrong) == 1
    printed = capsys.readouterr()
    assert "A_GROUP" in printed.err and not printed.out
    assert explain(wrong, "--json", "--events", EXAMPLES / "race.events") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["automata"], found["accepted"], found["events"]) == ([], False, [])


@pytest.mark.parametrize(
    ("content", "slug"),
    [
        (b'{"call": "f"', "bad-events"),
        (b'{"call": "f\xff"}', "bad-events"),
        (b"\0\0", "bad-events"),
        (b'{"call": "f", "args": []}', "event-lacks-value"),
    ],
)
def test_a_bad_file_of_events_is_an_error(
    sound: Path, content: bytes, slug: str, capsys: pytest.CaptureFixture[str]
) -> None:
    events = sound.with_suffix(".events")
    events.write_bytes(content)
    assert explain(sound, "--events", events) == 2
    assert f"({slug})" in capsys.readouterr().err
    assert explain(sound, "--events", events, "--json") == 2
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["error"]["slug"] == slug


@pytest.mark.parametrize("what", ["missing", "directory"])
def test_an_unreadable_file_is_an_error(sound: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = sound.parent if what == "directory" else sound.parent / "none"
    assert explain(path) > 0
    assert explain(sound, "--events", path) > 0
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["overflow", "status"])
def test_the_c_that_is_printed_is_compiled(name: str) -> None:
    """A compiler takes it: calls, writes of a variable, and of memory by its address."""
    path = EXAMPLES / f"{name}.aspect"
    for one in emitted(path):
        made = one.woven
        assert made is not None
        assert compile_advice(path, made.text, WOVEN, made.signature, made.when, made.declarations).compiled


def test_c_is_printed_of_every_function_on_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(EXAMPLES / "race.aspect", "--emit-c") == 0
    printed = capsys.readouterr().out
    for what in ("libc:stat", "libc:open", "kernel:vfs_rename", "kernel:vfs_unlink"):
        assert f"/* {what} */" in printed
    lines = (EXAMPLES / "race.aspect").read_text().splitlines()
    at = next(number for number, line in enumerate(lines, 1) if "proceed()" in line)
    assert (
        f'#line {at} "' in printed or f'#line {at - 1} "' in printed
    )  # messages of a compiler name the aspect's lines


def test_c_is_printed_alone(sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(sound, "--emit-c", "--events", sound) == 2
    assert "--emit-c prints C" in capsys.readouterr().err
    wrong = tmp_path / "wrong.aspect"
    wrong.write_text("A: call(void f(int k));")
    assert explain(wrong, "--emit-c") == 1
    assert not capsys.readouterr().out
