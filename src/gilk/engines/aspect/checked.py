# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reading and checking of files of aspects."""

from __future__ import annotations

import re
from pathlib import Path

from gilk.errors import UsageError
from gilk.inputs import read_text
from gilk.lang.aspect.checked import AspectCheck, CheckedC
from gilk.lang.aspect.meaning.order import check_aspects
from gilk.lang.syntax.source import Source, Span
from gilk.values import dataclass

_MACRO = re.compile(r"([A-Za-z_]\w*)(?:=([^\n]*))?")


@dataclass(frozen=True, slots=True)
class AspectReading:
    """A file that was read, and the result of its check. ``source`` tells the line of a position."""

    source: Source
    check: AspectCheck


def check(path: Path) -> AspectReading:
    """Read and check a file. Raises UsageError `too-long`, OSError."""
    source = Source(str(path), read_text(path))
    return AspectReading(source, check_aspects(source))


def defined(text: str) -> CheckedC:
    """The #define for NAME or NAME=VALUE; without a value it is 1, as for compilers. Raises UsageError `bad-define`."""
    found = _MACRO.fullmatch(text)
    if found is None:
        raise UsageError("bad-define", f"{text!r} defines nothing", "give NAME=VALUE, for example -D LIMIT=30")
    return CheckedC(f"#define {found[1]} {found[2] if found[2] is not None else 1}", Span(0, 0))
