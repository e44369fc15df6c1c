# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files of aspects: read from where they lie, and checked."""

from __future__ import annotations

from pathlib import Path

from gilk.lang.aspect.checked import AspectCheck
from gilk.lang.aspect.meaning.order import check_aspects
from gilk.lang.syntax.source import Source
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class AspectReading:
    """``source`` says in which line something is."""

    source: Source
    check: AspectCheck


def check(path: Path) -> AspectReading:
    """Raises OSError if it cannot be read. Bytes that are no UTF-8 are kept as they are."""
    source = Source(str(path), path.read_text("utf-8", "surrogateescape"))
    return AspectReading(source, check_aspects(source))
