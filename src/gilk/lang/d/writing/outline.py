# SPDX-License-Identifier: LGPL-2.1-or-later
"""The division of a text in D, which may be unfinished, into items, and of these into pieces.

The parser stops at the first mistake, but a program that is being written has one after nearly every letter. This way
to read a text never fails, takes time in proportion to the length, and assigns every letter to an item and a piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from enum import StrEnum, auto

from gilk.lang.d.lexer import BLANK, DESCRIPTION, TOKEN, describes
from gilk.lang.syntax.source import Span
from gilk.lang.types import ALIASES
from gilk.values import dataclass


class PieceKind(StrEnum):
    """The groups of the lexer's expression for tokens, and kinds for text that is no token."""

    SYMBOL = auto()
    NAME = auto()
    REAL = auto()
    NUMBER = auto()
    TEXT = auto()
    CHARACTER = auto()
    MACRO = auto()
    AGGREGATE = auto()
    SIGN = auto()
    DESCRIPTION = auto()
    COMMENT = auto()
    CONTROL = auto()  # a line that begins with #
    OTHER = auto()  # a letter that D does not use


class ItemPart(StrEnum):
    """The part of an item in which a piece stands."""

    TOP = auto()  # before anything else
    HEAD = auto()  # among the descriptions of a clause
    PREDICATE = auto()
    BODY = auto()
    DECLARATION = auto()


@dataclass(frozen=True, slots=True)
class Piece:
    kind: PieceKind
    span: Span
    text: str


@dataclass
class OutlineItem:
    """A clause or a declaration. ``body``: the offset of the first bracket of a clause's actions; -1 without one.
    ``pieces``: all but comments and control lines.
    """

    start: int
    end: int
    body: int = -1
    pieces: list[Piece] = field(default_factory=list)


@dataclass(frozen=True)
class Outline:
    """An outline with a cursor. ``at``: the item in which the cursor is, None between items and in the first word of
    one; ``part``: the part of the item. ``piece``: the piece in which the cursor is, or at whose end, or None.
    ``before``: the pieces of that item before the cursor's.
    """

    items: tuple[OutlineItem, ...]
    at: OutlineItem | None
    part: ItemPart
    piece: Piece | None
    before: tuple[Piece, ...]


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.part = text, ItemPart.TOP
        self.items: list[OutlineItem] = []
        self.item: OutlineItem | None = None
        self._depth = 0

    def pieces(self) -> Iterator[tuple[Piece, ItemPart]]:
        """Yield each piece with the part in which it was found."""
        position, text = 0, self.text
        while position < len(text):
            blank = BLANK.match(text, position)
            if blank is not None:
                position = blank.end()
                continue
            piece = self._piece(position)
            position = piece.span.end
            part = self.part
            self._take(piece)
            yield piece, part

    def _piece(self, position: int) -> Piece:
        text = self.text
        if text.startswith("/*", position):
            end = text.find("*/", position + 2)
            return self._of(PieceKind.COMMENT, position, len(text) if end < 0 else end + 2)
        if text[position] == "#":
            end = text.find("\n", position)
            return self._of(PieceKind.CONTROL, position, len(text) if end < 0 else end)
        if self.part in (ItemPart.TOP, ItemPart.HEAD):
            found = DESCRIPTION.match(text, position)
            if found is not None and (self.part is ItemPart.HEAD or describes(found, ALIASES)):
                return self._of(PieceKind.DESCRIPTION, position, found.end())
        found = TOKEN.match(text, position)
        if found is None:
            return self._of(PieceKind.OTHER, position, position + 1)
        return self._of(PieceKind(found.lastgroup or PieceKind.OTHER), position, found.end())

    def _of(self, kind: PieceKind, start: int, end: int) -> Piece:
        return Piece(kind, Span(start, end), self.text[start:end])

    def _take(self, piece: Piece) -> None:
        if piece.kind in (PieceKind.COMMENT, PieceKind.CONTROL):
            return
        if self.part is ItemPart.TOP:
            self._begin(piece)
        assert self.item is not None
        self.item.pieces.append(piece)
        self.item.end = piece.span.end
        _TAKING[self.part](self, piece)

    def _begin(self, piece: Piece) -> None:
        self.item = OutlineItem(piece.span.start, piece.span.end)
        self.items.append(self.item)
        self._depth = 0
        self.part = ItemPart.HEAD if piece.kind is PieceKind.DESCRIPTION else ItemPart.DECLARATION

    def _end(self) -> None:
        self.item, self.part = None, ItemPart.TOP

    def _head(self, piece: Piece) -> None:
        """Take a piece of a head. Commas separate descriptions; if a description begins without one, the item before
        was not finished.
        """
        assert self.item is not None
        pieces = self.item.pieces
        if piece.text == "/":
            self.part = ItemPart.PREDICATE
        elif piece.text == "{":
            self._open(piece)
        elif piece.kind is PieceKind.DESCRIPTION and len(pieces) > 1 and pieces[-2].text != ",":
            pieces.pop()
            self.item.end = pieces[-1].span.end
            self._begin(piece)
            assert self.item is not None
            self.item.pieces.append(piece)
        elif piece.kind is not PieceKind.DESCRIPTION and piece.text != ",":
            self._end()

    def _predicate(self, piece: Piece) -> None:
        """Take a piece of a predicate. The last slash of a predicate is the one before a bracket, or before the end of
        the text.
        """
        if piece.text == "{":
            self._open(piece)
        elif piece.text == "/" and self._is_last(piece.span.end):
            self.part = ItemPart.HEAD

    def _is_last(self, position: int) -> bool:
        while True:
            blank = BLANK.match(self.text, position)
            position = blank.end() if blank is not None else position
            if not self.text.startswith("/*", position):
                return self.text[position : position + 1] in ("{", ";", "")
            end = self.text.find("*/", position + 2)
            if end < 0:
                return True
            position = end + 2

    def _open(self, piece: Piece) -> None:
        assert self.item is not None
        self.part, self.item.body, self._depth = ItemPart.BODY, piece.span.start, 1

    def _body(self, piece: Piece) -> None:
        self._count(piece)
        if self._depth <= 0:
            self._end()

    def _declaration(self, piece: Piece) -> None:
        self._count(piece)
        if piece.text == ";" and self._depth <= 0:
            self._end()

    def _count(self, piece: Piece) -> None:
        if piece.kind is PieceKind.SIGN:
            self._depth += (piece.text == "{") - (piece.text == "}")


_TAKING = {
    ItemPart.HEAD: _Reader._head, ItemPart.PREDICATE: _Reader._predicate, ItemPart.BODY: _Reader._body,
    ItemPart.DECLARATION: _Reader._declaration,
}  # fmt: skip
#: Pieces with a definite end: a cursor after the last letter is no longer in them.
_CLOSED = (PieceKind.COMMENT, PieceKind.TEXT, PieceKind.CHARACTER, PieceKind.SIGN, PieceKind.OTHER)


def outline(text: str, at: int) -> Outline:
    """The outline of a text. ``at``: the offset of the cursor, from 0 to the length of the text."""
    reader = _Reader(text)
    where: tuple[OutlineItem | None, ItemPart, int] = (None, ItemPart.TOP, 0)  # the last is the number of pieces before
    under: Piece | None = None
    passed = False
    for piece, part in reader.pieces():
        if passed or piece.span.start > at or (piece.span.start == at and not _is_word(piece)):
            passed = True
        elif _holds(piece, at):
            under, passed = piece, True
            holder = reader.items[-1] if reader.items and reader.items[-1].pieces[-1] is piece else None
            if holder is None or len(holder.pieces) > 1:
                where = holder or reader.item, part, len(holder.pieces) - 1 if holder else 0
            else:
                where = None, ItemPart.TOP, 0
        else:
            where = reader.item, reader.part, len(reader.item.pieces) if reader.item else 0
    item, part, count = where
    return Outline(tuple(reader.items), item, part, under, tuple(item.pieces[:count]) if item else ())


def _is_word(piece: Piece) -> bool:
    return piece.kind not in _CLOSED


def _holds(piece: Piece, at: int) -> bool:
    if at < piece.span.end:
        return True
    if at > piece.span.end:
        return False
    if piece.kind is PieceKind.COMMENT:
        return not (piece.text.endswith("*/") and len(piece.text) > 3)
    if piece.kind in (PieceKind.TEXT, PieceKind.CHARACTER):
        return len(piece.text) < 2 or piece.text[-1] != piece.text[0]
    return _is_word(piece)
