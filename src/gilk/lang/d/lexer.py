# SPDX-License-Identifier: LGPL-2.1-or-later
"""The lexer: from text to tokens. The parser tells it where a probe's description stands, since that has other letters
than expressions.

A ``/`` is one token, both for a division and around predicates; the parser knows which it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import Enum, auto
from typing import NamedTuple

from gilk.lang.d import items, literals
from gilk.lang.d.control import ControlLine
from gilk.lang.d.macros import Identifier, MacroInteger, Substitution
from gilk.lang.d.probes import is_overspecified
from gilk.lang.d.tags import SyntaxTag
from gilk.lang.syntax.source import Rejected, Source, Span


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TYPE_WORDS = _words("void char short int long float double signed unsigned string")
QUALIFIERS = _words("const volatile restrict")
STORAGE = _words("self this extern static typedef auto register")
TAGS = _words("struct union enum")
DECLARING = TYPE_WORDS | QUALIFIERS | STORAGE | TAGS | _words("inline translator provider import counter")
LOOPS = _words("break continue do for goto return switch case default while")
KEYWORDS = DECLARING | LOOPS | _words("else if offsetof probe sizeof stringof xlate")


class TokenKind(Enum):
    NAME = auto()
    KEYWORD = auto()
    NUMBER = auto()
    TEXT = auto()
    AGGREGATE = auto()
    SIGN = auto()
    END = auto()


class Token(NamedTuple):
    """A token. ``text`` is as written, so a string that reads ``(`` differs from the sign. ``word``: a name, or a
    string's value.
    """

    kind: TokenKind
    span: Span
    text: str
    word: str = ""
    number: int = 0
    suffix: str = ""
    decimal: bool = True


BLANK = re.compile(r"(?:[ \t\n\r\f\v]|\\\r?\n)+")
TOKEN = re.compile(
    r"""
    (?P<symbol>(?:\d+`)?(?:a\.out|[A-Za-z_][\w.+-]{0,80}?\.so(?:\.\d+)*)`[A-Za-z_]\w*|\d+`[A-Za-z_][\w`]*)
  | (?P<name>[A-Za-z_`][\w`]*)
  | (?P<real>\d+\.\d*(?:[eE][-+]?\d+)?[fFlL]? | \.\d+(?:[eE][-+]?\d+)?[fFlL]? | \d+[eE][-+]?\d+[fFlL]?)
  | (?P<number>(?:0[xX][0-9A-Fa-f]+|\d+)(?:[uU][lL]{0,2}|[lL]{1,2}[uU]?)?)
  | (?P<text>"(?:[^"\\\n]|\\[^\n])*"?)
  | (?P<character>'(?:[^'\\\n]|\\[^\n])*'?)
  | (?P<macro>\$\$?(?:\d+|[A-Za-z_]\w*))
  | (?P<aggregate>@(?:[A-Za-z_]\w*)?)
  | (?P<sign>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||\^\^|[-+*/%&^|]=|[-+*/%&^|~!<>=?:;,.(){}\[\]])
    """,
    re.VERBOSE | re.ASCII,
)
_WORD = r"[-$:\w.`?*\\\[\]!]+"
DESCRIPTION = re.compile(rf"{_WORD}(?:(?:[ \t]++(?=:)|(?<=:)[ \t]++){_WORD})*", re.ASCII)
_MACRO = re.compile(r"\$\$?(?:\d+|[A-Za-z_]\w*)", re.ASCII)
_OF_NO_TYPE = frozenset(":-.?!`$\\")
_NAME = r"[A-Za-z_]\w*+\s*+"
_UNKNOWN_TYPE = re.compile(rf"[A-Za-z_]\w*+(?:\s++\**+\s*+{_NAME}[;,\[(]|\*++\s*+{_NAME};)", re.ASCII)


_GLOB = frozenset("*[")


def describes(found: re.Match[str], types: Collection[str]) -> bool:
    """Whether a text of the letters of descriptions, found at top level, is a description and not the begin of a
    declaration.
    """
    if found[0] in ("BEGIN", "END", "ERROR") or found[0][0].isdecimal() or set(found[0]) & _OF_NO_TYPE:
        return True
    first = re.split(r"[*\[]", found[0], maxsplit=1)[0]
    return not (first in DECLARING or first in types or _UNKNOWN_TYPE.match(found.string, found.start()))


class Lexer:
    """A lexer. ``pragmas`` and ``markers``: the contents of the control lines so far. ``pspec``: whether what may be a
    description is one, though it may be the begin of a declaration, too (the option of that name)."""

    def __init__(self, source: Source, substitution: Substitution, pspec: bool = False) -> None:
        self.pspec = pspec
        self.source, self.text, self.position = source, source.text, 0
        self.substitution = substitution
        self.pragmas: list[items.Pragma] = []
        self.markers: list[items.Marker] = []

    def token(self) -> Token:
        """Take the next token of an expression, a statement or a declaration. Raises Rejected."""
        self._skip()
        found = TOKEN.match(self.text, self.position)
        if found is None:
            return self._end_or_error()
        span = Span(self.position, found.end())
        self.position = span.end
        text, group = found[0], found.lastgroup
        if group == "sign":
            return Token(TokenKind.SIGN, span, text)
        if group == "name":
            return Token(TokenKind.KEYWORD if text in KEYWORDS else TokenKind.NAME, span, text, text)
        if group == "symbol":
            return Token(TokenKind.NAME, span, text, text)
        if group == "aggregate":
            return Token(TokenKind.AGGREGATE, span, text, text[1:] or "_")
        return self._literal(group, text, span)

    def at_description(self, types: frozenset[str] | set[str]) -> bool:
        """Whether a probe's description, and not a declaration, comes next at top level.

        A text with a letter that no type can have is a description. Otherwise it is a declaration if it begins with a
        keyword or the name of a type, or, since not all types may be known, if it looks like one: ``foo_t *x;`` With
        the option pspec a star or a bracket makes it a description.
        """
        self._skip()
        found = DESCRIPTION.match(self.text, self.position)
        return found is not None and (describes(found, types) or (self.pspec and not _GLOB.isdisjoint(found[0])))

    def description(self) -> items.ProbeText:
        """probe_specifier: PSPEC | INT"""
        self._skip()
        found = DESCRIPTION.match(self.text, self.position)
        if found is None:
            raise Rejected(SyntaxTag.D_SYNTAX, self._here(), "expected a probe description")
        span = Span(self.position, found.end())
        self.position = span.end
        text = _MACRO.sub(lambda one: self.substitution.description(one[0], span), re.sub(r"[ \t]", "", found[0]))
        overspecified = is_overspecified(text)
        if overspecified or text.endswith("\\") or not re.fullmatch(_WORD, text, re.ASCII):
            hint = "a description is provider:module:function:name"
            why = ": Overspecified probe description" if overspecified else ""
            raise Rejected(SyntaxTag.D_PDESC_INVAL, span, f'invalid probe description "{text}"{why}', hint)
        return items.ProbeText(span, text)

    def _skip(self) -> None:
        """Skip blanks, comments and control lines."""
        while True:
            if found := BLANK.match(self.text, self.position):
                self.position = found.end()
            if self.text.startswith("/*", self.position):
                self._comment()
            elif self.text.startswith("#", self.position):
                self._control()
            elif found is None:
                return

    def _comment(self) -> None:
        start = self.position
        end = self.text.find("*/", start + 2)
        if end < 0:
            last = Span(len(self.text), len(self.text))
            raise Rejected(SyntaxTag.D_SYNTAX, last, "end-of-file encountered before matching */")
        inner = self.text.find("/*", start + 2, end)
        if inner >= 0:
            raise Rejected(SyntaxTag.D_SYNTAX, Span(inner, inner + 2), "/* encountered inside a comment")
        self.position = end + 2

    def _control(self) -> None:
        start = self.position
        if self.text[self.text.rfind("\n", 0, start) + 1 : start].strip():
            raise Rejected(SyntaxTag.D_SYNTAX, Span(start, start + 1), 'syntax error near "#"')
        newline = self.text.find("\n", start)
        end = newline if newline >= 0 else len(self.text)
        self.position = end
        if self.text.startswith("#!", start):
            return
        if newline < 0:
            raise Rejected(SyntaxTag.D_SYNTAX, Span(end, end), "end-of-file encountered before end of control line")
        file = self.markers[-1].file if self.markers else self.source.name
        said = ControlLine(self.text[start + 1 : end], Span(start, end), min(end + 1, len(self.text)), file).read()
        if isinstance(said, items.Pragma):
            self.pragmas.append(said)
            self.pspec = self.pspec or (said.kind == "option" and said.words[:1] == ("pspec",))
        elif said is not None:
            self.markers.append(said)

    def _literal(self, group: str | None, text: str, span: Span) -> Token:
        if group == "number":
            value, suffix, decimal = literals.integer(text, span)
            return Token(TokenKind.NUMBER, span, text, "", value, suffix, decimal)
        if group == "macro":
            return self._macro(text, span)
        if group == "real":
            raise Rejected(SyntaxTag.D_SYNTAX, span, "floating-point constants are not permitted")
        self._closed(text, span)
        if group == "character":
            return Token(TokenKind.NUMBER, span, text, "", literals.character(text[1:-1], span), "char")
        return Token(TokenKind.TEXT, span, text, literals.unescaped(text[1:-1]))

    def _closed(self, text: str, span: Span) -> None:
        """Raises Rejected unless the literal has its second quote."""
        if len(text) > 1 and text[-1] == text[0] and (len(text) - len(text[:-1].rstrip("\\"))) % 2 == 1:
            return
        what, tag = (
            ("string literal", SyntaxTag.D_STR_NL) if text[0] == '"' else ("character constant", SyntaxTag.D_CHR_NL)
        )
        if span.end == len(self.text):
            raise Rejected(SyntaxTag.D_SYNTAX, span, f"end-of-file encountered in {what}")
        raise Rejected(tag, Span(span.end + 1, span.end + 1), f"newline encountered in {what}")

    def _macro(self, text: str, span: Span) -> Token:
        stands_for = self.substitution.expression(text, span)
        if isinstance(stands_for, MacroInteger):
            return Token(TokenKind.NUMBER, span, text, "", stands_for.value, stands_for.suffix, stands_for.decimal)
        if isinstance(stands_for, Identifier):
            return Token(TokenKind.NAME, span, text, stands_for.name)
        return Token(TokenKind.TEXT, span, text, stands_for.value)

    def _end_or_error(self) -> Token:
        if self.position == len(self.text):
            return Token(TokenKind.END, Span(self.position, self.position), "")
        raise Rejected(SyntaxTag.D_SYNTAX, self._here(), f'syntax error near "{self.text[self.position]}"')

    def _here(self) -> Span:
        return Span(self.position, min(self.position + 1, len(self.text)))
