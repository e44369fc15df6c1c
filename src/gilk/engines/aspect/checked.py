# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files of aspects: read from where they lie, and checked."""

from __future__ import annotations

import re
from pathlib import Path

from gilk.errors import UsageError
from gilk.lang.aspect.checked import AspectCheck, CheckedC
from gilk.lang.aspect.meaning.order import check_aspects
from gilk.lang.syntax.source import Source, Span
from gilk.values import dataclass

_MACRO = re.compile(r"([A-Za-z_]\w*)(?:=([^\n]*))?")


@dataclass(frozen=True, slots=True)
class AspectReading:
    """``source`` says in which line something is."""

    source: Source
    check: AspectCheck


def check(path: Path) -> AspectReading:
    """Raises OSError if it cannot be read. Bytes that are no UTF-8 are kept as they are."""
    source = Source(str(path), path.read_text("utf-8", "surrogateescape"))
    return AspectReading(source, check_aspects(source))


def defined(text: str) -> CheckedC:
    """The C that NAME or NAME=VALUE stands for; without a value it is 1, as compilers have it. Raises UsageError
    `bad-define`."""
    found = _MACRO.fullmatch(text)
    if found is None:
        raise UsageError("bad-define", f"{text!r} defines nothing", "give NAME=VALUE, for example -D LIMIT=30")
    return CheckedC(f"#define {found[1]} {found[2] if found[2] is not None else 1}", Span(0, 0))
