# SPDX-License-Identifier: LGPL-2.1-or-later
"""The manual pages are good: man(1) has no complaints, and they show each option of each command, and code as it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from gilk.cli.main import COMMANDS, cli

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("man")
    subprocess.run([sys.executable, ROOT / "tools/manual.py", place], check=True, capture_output=True)
    return place


def shown(page: Path) -> str:
    environment = {**os.environ, "MANWIDTH": "2000", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""}
    command = ["man", "--warnings=w,mac", "--no-hyphenation", "--no-justification", "-E", "UTF-8", "-l", page]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), page
    return re.sub(r"\x1b\[[\d;]*m|.\x08", "", done.stdout)


def test_each_command_has_a_manual_page(made: Path) -> None:
    assert {path.name for path in made.iterdir()} == {
        "gilk.1", "gilk-grammar.7", *(f"gilk-{name}.1" for name in COMMANDS)
    }  # fmt: skip
    told = shown(made / "gilk.1")
    assert all(f"gilk-{name}(1)" in told and COMMANDS[name] in told for name in COMMANDS)


def options(command: click.Command) -> set[str]:
    own = {name for each in command.params if isinstance(each, click.Option) and not each.hidden for name in each.opts}
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    return own.union(*(options(each) for each in inner))


@pytest.mark.parametrize("name", [*COMMANDS, "grammar"])
def test_a_manual_page_has_the_content_of_its_source(made: Path, name: str) -> None:
    told = shown(made / (f"gilk-{name}.1" if name in COMMANDS else f"gilk-{name}.7"))
    source = (ROOT / f"docs/cli/{name}.md").read_text()
    lines = {line.strip() for line in told.splitlines()}
    code = [line for block in FENCE.findall(source) for line in block.splitlines() if line.strip()]
    assert [line for line in code if line.expandtabs().strip() not in lines] == []
    assert f"gilk-{name} - " in told and "](" not in told and r"\f" not in told
    if name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        written = {each for each in options(command) if f"`{each}" in source or f"{each}`" in source}
        assert written and all(each in told for each in written)


def test_negative_control_a_malformed_page_is_reported(tmp_path: Path) -> None:
    (tmp_path / "wrong.1").write_text('.TH "WRONG" "1"\n.SH NAME\nwrong \\- x\n.NOSUCH request\n\\fBx\\*[nosuch]\n')
    with pytest.raises(AssertionError):
        shown(tmp_path / "wrong.1")
