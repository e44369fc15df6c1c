# SPDX-License-Identifier: LGPL-2.1-or-later
"""Hints for words of other tools. The oracle for a hint is gilk's own help: each command and option in it exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from gilk.cli import main, other_words
from tests.behaviour.harness import run_gilk

HINTS = sorted(
    {*other_words.COMMANDS.values(), *other_words.OPTIONS.values(), *other_words.LACKING.values()}
    | set(other_words.MISSING.values())
)


def gilk(*words: str) -> subprocess.CompletedProcess[str]:
    return run_gilk(*words, timeout=250)


@pytest.mark.parametrize("hint", HINTS)
def test_commands_and_options_in_hints_exist(hint: str) -> None:
    for words in re.findall(r"gilk ([a-z].*?)(?=;|,|$| -- )", re.sub(r"'[^']*'", "X", hint)):
        command, *rest = words.split()
        assert command in main.COMMANDS or command == "COMMAND", words
        own = gilk(command, "--help").stdout if command in main.COMMANDS else ""
        for option in rest if own else ():
            if option.startswith("-"):
                assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", own), f"{command} has no {option}"


def test_no_command_of_ours_is_a_word_of_others() -> None:
    assert not set(other_words.COMMANDS) & set(main.COMMANDS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["record", "./a.out"], "gilk trace -- COMMAND"), (["attach", "1"], "-p PID"), (["stat"], "=count"),
        (["-p", "1"], "gilk top -p PID"), (["trace", "--for", "1"], "--stop for:"), (["run", "ls"], "-i 'main:entry"),
        (["scan"], "gilk scan /bin/bash"),
    ],
)  # fmt: skip
def test_a_word_of_another_tool_gets_gilks_own(words: list[str], said: str) -> None:
    done = gilk(*words)
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]
    answer = json.loads(gilk(*words, "--json").stdout)["error"]
    assert (answer["slug"], said in answer["hint"]) == ("usage", True)


def test_a_program_in_place_of_a_command_gets_a_command_before_it() -> None:
    assert shutil.which("cat")
    assert "gilk trace -- cat" in gilk("cat", "/dev/null").stderr
