# SPDX-License-Identifier: LGPL-2.1-or-later
"""The tokens of the language of aspects, and the search for the end of a fragment of C.

The scanner knows C's strings, character constants, comments and brackets, and nothing else of C.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

from gilk.lang.aspect.ast import CText
from gilk.lang.aspect.tags import AspectTag
from gilk.lang.syntax.source import Rejected, Source, Span

#: How deeply brackets may be nested in a fragment of C; clang takes as many.
_DEEPEST = 256


class Lexeme(Enum):
    NAME = auto()
    NUMBER = auto()
    QUOTED = auto()
    SIGN = auto()
    END = auto()


class AspectToken(NamedTuple):
    kind: Lexeme
    span: Span
    text: str


_BLANK = re.compile(r"(?:[ \t\n\r\f\v]+|/\*.*?\*/|//[^\n]*)+", re.DOTALL)
_TOKEN = re.compile(
    r"""
    (?P<NAME>[A-Za-z_]\w*)
  | (?P<NUMBER>\.?\d[\w.]*)
  | (?P<QUOTED>`[^`\n]*`)
  | (?P<SIGN>%K?\{|&&|\|\||\.\.\.?|[(){};:,=*.@\[\]?|&!<>+-])
    """,
    re.VERBOSE | re.ASCII,
)
_LITERAL = r"""(?P<literal>"(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | /\*.*?\*/ | //(?:[^\n\\]|\\.)*)"""
_PIECE = re.compile(
    rf"""
    {_LITERAL}
  | (?P<open>[(\[{{]) | (?P<close>[)\]}}]) | (?P<stop>[,;]) | (?P<bad>["']|/\*) | (?P<plain>[^"'/(\[{{)\]}},;]+|/)
    """,
    re.VERBOSE | re.DOTALL,
)
_PART = re.compile(
    rf"""{_LITERAL} | (?P<end>%\}}) | (?P<bad>["']|/\*) | (?P<plain>[^"'/%]+|[/%])""", re.VERBOSE | re.DOTALL
)
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_UNENDED = {'"': "a string", "'": "a character constant", "/*": "a comment"}


class AspectScanner:
    """A scanner. ``position`` is the end of the token that was taken last."""

    def __init__(self, source: Source) -> None:
        self.source, self.text, self.position = source, source.text, 0

    def token(self) -> AspectToken:
        """The next token, which is not taken. Raises Rejected."""
        self.skip()
        found = _TOKEN.match(self.text, self.position)
        if found is None:
            return self._end()
        return AspectToken(Lexeme[found.lastgroup or ""], Span(*found.span()), found[0])

    def skip(self) -> None:
        """Skip blanks and comments. Raises Rejected if a comment does not end."""
        if found := _BLANK.match(self.text, self.position):
            self.position = found.end()
        if self.text.startswith("/*", self.position):
            raise self._unended("/*", self.position)

    def c_before(self, stops: str, what: str) -> CText:
        """Take C up to one of ``stops`` outside of brackets; the stop itself is not taken. Raises Rejected."""
        self.skip()
        start, open_ = self.position, list[tuple[str, int]]()
        while open_ or self.text[self.position : self.position + 1] not in stops or self.position == len(self.text):
            found = self._piece(open_, start, what)
            self._bracket(found, open_)
            self.position = found.end()
        return self._trimmed(start, self.position, what)

    def c_bracketed(self, what: str) -> CText:
        """Take C from the next bracket to the one that closes it, both included. Raises Rejected."""
        self.skip()
        start, open_ = self.position, list[tuple[str, int]]()
        while not open_ or self.position == start:
            found = self._piece(open_, start, what)
            self._bracket(found, open_)
            self.position = found.end()
        while open_:
            found = self._piece(open_, start, what)
            self._bracket(found, open_)
            self.position = found.end()
        return CText(Span(start, self.position), self.text[start : self.position])

    def c_part(self) -> CText:
        """Take C up to ``%}``, and ``%}`` too. Raises Rejected."""
        start = self.position
        while True:
            found = _PART.match(self.text, self.position)
            if found is None:
                raise Rejected(AspectTag.A_C, Span(start - 1, start), "C that begins here does not end", "%} ends it")
            if found["bad"]:
                raise self._unended(found["bad"], found.start())
            self.position = found.end()
            if found["end"]:
                return CText(Span(start, found.start()), self.text[start : found.start()])

    def _piece(self, open_: list[tuple[str, int]], start: int, what: str) -> re.Match[str]:
        found = _PIECE.match(self.text, self.position)
        if found is None:
            at = open_[-1][1] if open_ else start
            why = f"the bracket {open_[-1][0]} is not closed" if open_ else f"{what} does not end"
            raise Rejected(AspectTag.A_C, Span(at, min(at + 1, len(self.text))), why)
        if found["bad"]:
            raise self._unended(found["bad"], found.start())
        return found

    def _bracket(self, found: re.Match[str], open_: list[tuple[str, int]]) -> None:
        if found["open"]:
            open_.append((found["open"], found.start()))
            if len(open_) > _DEEPEST:
                raise Rejected(AspectTag.A_C, Span(*found.span()), "brackets are nested too deeply", "use functions")
        elif found["close"]:
            if not open_ or _CLOSES[open_[-1][0]] != found["close"]:
                before = f": {open_[-1][0]} is open" if open_ else ""
                raise Rejected(AspectTag.A_C, Span(*found.span()), f"the bracket {found[0]} closes none{before}")
            open_.pop()

    def _trimmed(self, start: int, end: int, what: str) -> CText:
        text = self.text[start:end].rstrip()
        if not text:
            raise Rejected(AspectTag.A_C, Span(start, min(start + 1, len(self.text))), f"{what} is missing")
        return CText(Span(start, start + len(text)), text)

    def _unended(self, what: str, at: int) -> Rejected:
        return Rejected(AspectTag.A_C, Span(at, at + len(what)), f"{_UNENDED[what]} does not end")

    def _end(self) -> AspectToken:
        if self.position == len(self.text):
            return AspectToken(Lexeme.END, Span(self.position, self.position), "")
        one = Span(self.position, self.position + 1)
        return AspectToken(Lexeme.SIGN, one, self.text[self.position])
