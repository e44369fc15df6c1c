# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names of functions with the lines of the source at which they begin."""

from __future__ import annotations

from collections.abc import Callable

from gilk.render.text import cell
from gilk.trace.paths import Symbol, label

#: Returns the line of a function, by its name and its image's, such as ``parse.c:12``; '' if it is not known.
LinesOf = Callable[[str, str], str]


def no_lines(function: str, image: str) -> str:
    return ""


def with_line(symbol: Symbol, lines: LinesOf) -> str:
    """The name of a symbol, safe for a terminal, with its line if that is known: ``parse (parse.c:12)``."""
    line = lines(symbol[0], symbol[1])
    return cell(label(symbol)) + (f" ({cell(line)})" if line else "")
