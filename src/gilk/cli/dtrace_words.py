# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk dtrace --words N``: the words that may stand at a place of a program, for editors."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from gilk.api.d_writing import DWriting, Offered
from gilk.errors import UsageError
from gilk.inputs import read_text


def print_words(programs: list[tuple[str, str]], pid: int | None, at: int, as_json: bool) -> int:
    """Print the words that may stand at the letter ``at`` of the program, and return the exit status. ``programs``
    are pairs of an option's letter and its value. The process is read, not changed. Raises UsageError, TargetError."""
    text = _text(programs)
    if at > len(text):
        raise UsageError("no-such-letter", f"the program has {len(text)} letters", "--words N is a place from 0 on")
    found = DWriting(pid).words(text, at)
    click.echo(json.dumps(dataclasses.asdict(found)) if as_json else _table(found), nl=as_json)
    return 0


def _text(programs: list[tuple[str, str]]) -> str:
    """The text of the only program of the command line. Raises UsageError `words-of-one` if there are several."""
    if len(programs) != 1 or programs[0][0] not in "ns":
        raise UsageError("words-of-one", "--words is about one program", "give it with -n or -s")
    letter, given = programs[0]
    if letter == "n":
        return given
    try:
        return read_text(Path(given))
    except OSError as error:
        raise UsageError("cannot-open-script", f"failed to open {given}: {error.strerror}") from None


def _table(found: Offered) -> str:
    width = max((len(word.text) for word in found.words), default=0)
    rows = "".join(f"{word.text:{width}}  {word.detail or word.kind}\n" for word in found.words)
    return rows + (f"and {found.left_out} more\n" if found.left_out else "")
