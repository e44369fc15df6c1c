# SPDX-License-Identifier: LGPL-2.1-or-later
"""A text, places in it, and a compiler's diagnostics about them."""

from __future__ import annotations

import bisect
from functools import cached_property

from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """The characters [start, end) of a text."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        return Span(self.start, max(self.end, other.end))


@dataclass(frozen=True)
class Source:
    """A text. ``name`` is its name in messages; ``first`` is the number of its first line."""

    name: str
    text: str
    first: int = 1

    def line(self, span: Span) -> int:
        return self.first + bisect.bisect_right(self._starts, span.start) - 1

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(i + 1 for i, character in enumerate(self.text) if character == "\n")]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An error or warning about the text at ``span``. ``tag`` is the compiler's name for the kind of error."""

    tag: str
    span: Span
    message: str
    hint: str = ""


class Rejected(Exception):
    """A pass has found an error and ends. Its caller catches this, and shows the diagnostic to the user."""

    def __init__(self, tag: str, span: Span, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(str(tag), span, message, hint)
