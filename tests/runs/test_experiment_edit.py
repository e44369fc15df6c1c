# SPDX-License-Identifier: LGPL-2.1-or-later
"""Changes of an experiment's text: one value changes, by Python's TOML, and all other lines stay as they were."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gilk.errors import UsageError
from gilk.runs.experiment import edit

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "experiments"
TEXT = """\
# A comment.
duration = "10s"   # ten

[workload]
command = '''a # no comment
b'''  # said
[[instrument]]
points = "main:entry"
instrument = "count"  # counts
start = "500ms" # later

# About the second.
[[instrument]]
functions = "x#y"
strategy = "path"
"""
PATH = Path("a.toml")

CHANGES = [
    ("", "duration", 2.5, 'duration = 2.5   # ten'),
    ("", "duration", None, None),
    ("", "output", 'a"b\\c\x7f\U0001f41f.parquet', 'output = "a\\"b\\\\c\\u007f\U0001f41f.parquet"'),
    ("workload", "command", "true", 'command = "true"  # said'),
    ("workload", "stdout", "null", 'stdout = "null"'),
    ("instrument[1]", "start", 0.05, "start = 0.05 # later"),
    ("instrument[1]", "stop", 3, "stop = 3"),
    ("instrument[1]", "start", None, None),
    ("instrument[2]", "start", 1.25, "start = 1.25"),
    ("instrument[2]", "stop", None, None),
]  # fmt: skip


def changes(before: str, after: str) -> list[str]:
    """The lines that are new."""
    return [line[2:] for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line.startswith("+ ")]


@pytest.mark.parametrize(("where", "key", "value", "line"), CHANGES)
def test_changing_a_value_leaves_all_other_lines_unchanged(where: str, key: str, value: Any, line: str | None) -> None:
    made = edit.with_value(TEXT, PATH, where, key, value)
    assert changes(TEXT, made) == ([] if line is None else [line])
    found = tomllib.loads(made)
    table = found["instrument"][int(where[11]) - 1] if "[" in where else found[where] if where else found
    assert table.get(key) == value
    assert all(comment in made for comment in ("# A comment.", "# counts", "# About the second."))


def test_instruments_are_added_and_removed() -> None:
    more = edit.with_instrument(TEXT, PATH, {**edit.values_of("libc:read=@path:stamp"), "start": 0.5})
    assert tomllib.loads(more)["instrument"][2] == {
        "functions": "libc:read", "strategy": "path", "instrument": "stamp", "start": 0.5,
    }  # fmt: skip
    assert more.startswith(TEXT)
    assert edit.without_instrument(more, PATH, 3) == TEXT + "\n"
    less = edit.without_instrument(TEXT, PATH, 1)
    assert [each["strategy"] for each in tomllib.loads(less)["instrument"]] == ["path"]
    assert "# About the second.\n[[instrument]]" in less
    assert edit.values_of("a:b:@3:pre=time") == {"points": "a:b:@3:pre", "instrument": "time"}
    with pytest.raises(UsageError, match="POINTS=INSTRUMENT"):
        edit.values_of("main")


def test_a_value_in_a_missing_table_adds_the_table() -> None:
    made = edit.with_value('[[instrument]]\npoints = "a"\n', PATH, "workload", "command", "true")
    assert tomllib.loads(made) == {"workload": {"command": "true"}, "instrument": [{"points": "a"}]}
    assert tomllib.loads(edit.with_value(made, PATH, "", "duration", 3))["duration"] == 3


@pytest.mark.parametrize(
    "text",
    [
        "instrument = [{ points = 'a', start = 1 }]\n",  # written in another form
        'x = """\n[[instrument]]\nstart = 1\n"""\n[[instrument]]\npoints = "a"\n',  # looks like one, and is a string
        "[[instrument]\n",
    ],
)
def test_a_text_in_an_unsupported_form_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"not understood|not TOML") as error:
        edit.with_value(text, PATH, "instrument[1]", "start", 2.0)
    assert error.value.slug == "bad-experiment"


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_the_examples_can_be_changed(file: Path) -> None:
    text = file.read_text()
    made = edit.with_value(text, file, "instrument[1]", "stop", 1.5)
    assert changes(text, made) == ["stop = 1.5"]
    assert changes(text, edit.with_value(text, file, "", "repetitions", 2)) == ["repetitions = 2"]
