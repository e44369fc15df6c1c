# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kind of word that may stand at a place of a D program, found from its text alone; an editor's
completion uses it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum, auto
from typing import Final

from gilk.lang.d.lexer import QUALIFIERS, TAGS, TYPE_WORDS
from gilk.lang.d.writing.outline import ItemPart, Outline, OutlineItem, Piece, PieceKind, outline
from gilk.lang.types import ALIASES
from gilk.values import dataclass


class OpeningKind(StrEnum):
    NOTHING = auto()  # a string, a comment, a number, a name that is being declared
    PROBE = auto()  # a field of a description
    STATEMENT = auto()
    EXPRESSION = auto()
    AGGREGATING = auto()  # the value that an aggregation is assigned
    MEMBER = auto()  # after a dot or an arrow
    SCOPED = auto()  # after self-> or this->
    AGGREGATION = auto()  # after @
    MACRO = auto()  # after $
    SYMBOL = auto()  # after a backquote
    TAG = auto()  # after struct, union or enum
    TYPE = auto()
    OPTION = auto()  # after #pragma D option


@dataclass(frozen=True, slots=True)
class Opening:
    """A place for a word. The present word is at ``start`` to ``end``; ``prefix`` is its part before the cursor.

    ``fields``: the earlier fields of a description. ``base``: the start and end of the text of the operand that has the
    member, with ``arrow`` if its operator is an arrow. ``word``: the scope, the tag's kind, the module (``local`` for
    variables of functions, or that with a backquote and an inlined function), the function whose argument it is, or
    ``declaration`` where a declaration begins. ``first``: nothing comes before it in its item. ``called``: a bracket
    follows.
    """

    kind: OpeningKind
    start: int
    end: int
    prefix: str
    fields: tuple[str, ...] = ()
    base: tuple[int, int] = (0, 0)
    arrow: bool = False
    word: str = ""
    first: bool = False
    called: bool = False
    item: OutlineItem | None = None
    part: ItemPart = ItemPart.TOP

    @property
    def opens_bracket(self) -> bool:
        """Whether a bracket was opened that may begin a cast or enclose a type."""
        return self.word in ("(", "sizeof")


def _words(text_: str) -> frozenset[str]:
    return frozenset(text_.split())


LONGEST_WORD: Final = 4096  # letters of a word that anything is looked up for
_PRAGMA = re.compile(r"#\s*pragma\s+D\s+option\s+(\w*)\Z", re.ASCII)
_LINE = re.compile(r"[^\n]*\n")
_SYMBOL = re.compile(r"([\w.+-]*)`(\w*)\Z", re.ASCII)
_LOCAL = re.compile(r"(?<![\w`])(local(?:`\w+)?)`(\w*)\Z", re.ASCII)
_CALLED = re.compile(r"[ \t]*\(")
_REST = re.compile(r"\w*", re.ASCII)
_FIELD_REST = re.compile(r"[-$\w.`?*\\\[\]!]*", re.ASCII)
#: The last colon of a description whose function's name may have pairs of colons in it.
_LAST_COLON = re.compile(r"(.*?)(?<!:):(?!:)([^:]*)\Z", re.DOTALL)
_PREFIX_SIGNS = _words("( [ , + - * / % & | ^ ~ ! < > = ? : << >> <= >= == != && || ^^") | _words(
    "<<= >>= += -= *= /= %= &= |= ^="
)
_TYPES = TYPE_WORDS | QUALIFIERS | TAGS | frozenset(ALIASES)
_DECLARES = _words("inline typedef extern self this static const volatile unsigned signed short long")


def opening(source: str, at: int) -> Opening:
    """The place of a word with the cursor at letter ``at``, from 0 to the length of the text."""
    at = max(0, min(at, len(source)))
    found = outline(source, at)
    piece = found.piece
    start = piece.span.start if piece is not None else at
    if at - start > LONGEST_WORD:
        return _nothing(at)
    if piece is not None and piece.kind is PieceKind.CONTROL:
        return _option(source, piece, at)
    if piece is not None and piece.kind in (PieceKind.COMMENT, PieceKind.TEXT, PieceKind.CHARACTER, PieceKind.NUMBER,
                                            PieceKind.REAL):  # fmt: skip
        return _nothing(at)
    there = _in_head(source, found, at) if found.part in (ItemPart.TOP, ItemPart.HEAD) else _in_code(source, found, at)
    return replace(there, item=found.at, part=found.part, called=_CALLED.match(source, there.end) is not None)


def _nothing(at: int) -> Opening:
    return Opening(OpeningKind.NOTHING, at, at, "")


def _option(source: str, piece: Piece, at: int) -> Opening:
    said = _PRAGMA.match(source[piece.span.start : at])
    if said is None or not _LINE.match(source, at):  # a control line without its end is not read as one
        return _nothing(at)
    return Opening(OpeningKind.OPTION, at - len(said[1]), _rest(source, at), said[1])


def _rest(source: str, at: int, letters: re.Pattern[str] = _REST) -> int:
    found = letters.match(source, at)
    return found.end() if found is not None else at


# Descriptions.


def _in_head(source: str, found: Outline, at: int) -> Opening:
    before = found.before
    if before and before[-1].text != ",":
        return _nothing(at)  # a description is complete: a predicate or actions follow
    piece = found.piece
    declares = piece is not None and piece.kind is PieceKind.NAME
    written = source[piece.span.start : at] if piece is not None else ""
    fields = fields_of(re.sub(r"[ \t]", "", written))
    word = len(fields[-1])
    if piece is not None and written[len(written) - word :] != fields[-1]:
        return _nothing(at)  # the field contains a blank
    end = _rest(source, at, _FIELD_REST)
    fields, prefix = fields[:-1], fields[-1]
    kind = "declaration" if declares else ""
    return Opening(OpeningKind.PROBE, at - word, end, prefix, tuple(fields), word=kind, first=not before)


def fields_of(written: str) -> list[str]:
    """The fields of a description that may be unfinished; the last one is being written."""
    fields = written.split(":", 2)
    if len(fields) < 3 or (":" in fields[2] and "::" not in fields[2]) or ":" not in fields[2]:
        return written.split(":")
    last = _LAST_COLON.match(fields[2])
    return [*fields[:2], *(last.groups() if last is not None else (fields[2],))]


# Code.


def _in_code(source: str, found: Outline, at: int) -> Opening:
    piece, pieces = found.piece, found.before
    begin = max(0, at - LONGEST_WORD)
    symbol = _LOCAL.search(source, begin, at) or _SYMBOL.search(source, begin, at)
    if symbol is not None:
        end = _rest(source, at)
        return Opening(OpeningKind.SYMBOL, at - len(symbol[2]), end, symbol[2], word=symbol[1])
    start = piece.span.start if piece is not None else at
    end = piece.span.end if piece is not None else at
    prefix = source[start:at]
    if piece is not None and piece.kind is PieceKind.AGGREGATE:
        return Opening(OpeningKind.AGGREGATION, start, end, prefix)
    if (piece is not None and piece.kind is PieceKind.MACRO) or prefix == "$":
        return Opening(OpeningKind.MACRO, start, end, prefix)
    if piece is not None and piece.kind is not PieceKind.NAME:
        return _nothing(at)
    if pieces and pieces[-1].text == "$" and pieces[-1].span.end == start:
        return Opening(OpeningKind.MACRO, start - 1, end, f"${prefix}")
    kind, word = _kind(found.part, pieces)
    if kind is OpeningKind.MEMBER:
        return _member(found, start, end, prefix)
    if kind is OpeningKind.EXPRESSION and pieces[-1].text == "(" and source[start:end] in _TYPES:
        kind = OpeningKind.TYPE  # a cast is being written
    return Opening(kind, start, end, prefix, word=word, first=not pieces)


def _member(found: Outline, start: int, end: int, prefix: str) -> Opening:
    pieces = found.before
    arrow = pieces[-1].text == "->"
    first = _chain(pieces, len(pieces) - 2)
    if first is None:
        return _nothing(start + len(prefix))
    if arrow and first == len(pieces) - 2 and pieces[first].text in ("self", "this"):
        return Opening(OpeningKind.SCOPED, start, end, prefix, word=pieces[first].text)
    base = pieces[first].span.start, pieces[-2].span.end
    return Opening(OpeningKind.MEMBER, start, end, prefix, base=base, arrow=arrow)


def _chain(pieces: tuple[Piece, ...], last: int) -> int | None:
    """The number of the piece at which the operand begins that ends with piece ``last``, such as ``a.b[1]->c(2)``; None
    if no operand ends there.
    """
    at = last
    while at >= 0:
        if pieces[at].text in (")", "]"):
            opened = _opened(pieces, at)
            if opened is None:
                return None
            before = pieces[opened - 1] if opened else None
            goes_on = before is not None and (before.kind in _OPERANDS or before.text in (")", "]"))
            if not goes_on:
                return opened
            at = opened - 1
        elif pieces[at].kind in _OPERANDS or pieces[at].text in ("self", "this"):
            if at < 2 or pieces[at - 1].text not in ("->", "."):
                return at
            at -= 2
        else:
            return None
    return None


_OPERANDS: Final = (PieceKind.NAME, PieceKind.SYMBOL, PieceKind.AGGREGATE, PieceKind.MACRO)
_KEYWORDS: Final = frozenset(("if", "else", "sizeof", "stringof", "xlate", "offsetof"))
_PAIRS: Final = {")": "(", "]": "["}


def _opened(pieces: tuple[Piece, ...], at: int) -> int | None:
    """The number of the piece with the bracket that piece ``at`` closes; None if there is none."""
    depth = 0
    for number in range(at, -1, -1):
        said = pieces[number].text if pieces[number].kind is PieceKind.SIGN else ""
        depth += (said in (")", "]")) - (said in ("(", "["))
        if not depth:
            return number if said == _PAIRS[pieces[at].text] else None
    return None


def _kind(part: ItemPart, pieces: tuple[Piece, ...]) -> tuple[OpeningKind, str]:
    """The kind of word that follows these pieces of an item; and the tag's kind, or the function whose
    argument it is.
    """
    last = pieces[-1]
    if last.text in ("->", "."):
        return OpeningKind.MEMBER, ""
    if last.text in TAGS:
        return OpeningKind.TAG, last.text
    if part is ItemPart.DECLARATION and not any(each.text == "=" for each in pieces):
        return _in_declaration(pieces), ""
    if part is ItemPart.BODY and _begins_statement(pieces):
        return OpeningKind.STATEMENT, ""
    if last.text == "=" and _is_aggregation(pieces):
        return OpeningKind.AGGREGATING, ""
    if last.kind is PieceKind.SIGN and last.text in _PREFIX_SIGNS:
        return _behind_sign(pieces)
    if last.text in ("sizeof", "stringof"):
        return OpeningKind.EXPRESSION, ""
    if last.text == ")" and _is_cast(pieces):
        return OpeningKind.EXPRESSION, ""
    return OpeningKind.NOTHING, ""


def _behind_sign(pieces: tuple[Piece, ...]) -> tuple[OpeningKind, str]:
    before = pieces[-2].text if len(pieces) > 1 else ""
    if (pieces[-1].text, before) in (("(", "offsetof"), ("<", "xlate")):
        return OpeningKind.TYPE, ""
    return OpeningKind.EXPRESSION, _called(pieces)


def _called(pieces: tuple[Piece, ...]) -> str:
    """The function whose first argument comes next; "(" if a cast may come, "" otherwise."""
    if pieces[-1].text != "(":
        return ""
    named = len(pieces) > 1 and (pieces[-2].kind in _OPERANDS or pieces[-2].text in _KEYWORDS)
    return pieces[-2].text if named else "("


def _in_declaration(pieces: tuple[Piece, ...]) -> OpeningKind:
    last = pieces[-1].text
    return OpeningKind.TYPE if last in _DECLARES or last in ("{", ";", "(", ",", "<") else OpeningKind.NOTHING


def _begins_statement(pieces: tuple[Piece, ...]) -> bool:
    last = pieces[-1]
    if last.text in ("{", ";", "}", "else"):
        return True
    if last.text != ")":
        return False
    opened = _opened(pieces, len(pieces) - 1)
    return bool(opened) and pieces[(opened or 1) - 1].text == "if"


def _is_aggregation(pieces: tuple[Piece, ...]) -> bool:
    first = _chain(pieces, len(pieces) - 2)
    return first is not None and pieces[first].kind is PieceKind.AGGREGATE


def _is_cast(pieces: tuple[Piece, ...]) -> bool:
    opened = _opened(pieces, len(pieces) - 1)
    if opened is None or (opened and (pieces[opened - 1].kind in _OPERANDS or pieces[opened - 1].text in _KEYWORDS)):
        return False
    inner = pieces[opened + 1 : -1]
    return bool(inner) and inner[0].text in _TYPES
