# SPDX-License-Identifier: LGPL-2.1-or-later
"""Declarations in C, read with the grammar of types of lang/d, without the words that only D has."""

from __future__ import annotations

import re
from dataclasses import replace

from gilk.lang.aspect.ast import CText, Declared, Ident
from gilk.lang.aspect.tags import AspectTag
from gilk.lang.d import ast
from gilk.lang.d.lexer import KEYWORDS, LOOPS, QUALIFIERS, STORAGE, TAGS, TYPE_WORDS, Lexer, Token, TokenKind
from gilk.lang.d.macros import Macros, Substitution
from gilk.lang.d.parser import Parser
from gilk.lang.syntax.source import Rejected, Source, Span

_OF_C = ((TYPE_WORDS | QUALIFIERS | STORAGE | TAGS | LOOPS) - {"string", "self", "this"}) | {"sizeof"}
_COMPLEX = ("_Complex", "__complex__", "complex")
_SAME = {"_Bool": "bool", "__restrict": "restrict", "__restrict__": "restrict", "__const": "const"}
_MARK = "\0"


def declared(source: Source, given: CText, tag: AspectTag) -> Declared:
    """A parameter or variable; its name is None if it has none. Raises Rejected with ``tag``."""
    parser = _Declarations(source, given, tag)
    found = parser.whole()
    name = found.declarator.name
    ident = None if name is None else Ident(_place(given, name), name)
    nameless = ast.Declarator(found.declarator.span, None, found.declarator.shape)
    return Declared(given.span, ast.TypeName(given.span, found.base, nameless), ident)


def type_of(source: Source, given: CText, tag: AspectTag) -> ast.TypeName:
    """A type without a name. Raises Rejected with ``tag``."""
    found = declared(source, given, tag)
    if found.name is not None:
        raise Rejected(tag, found.name.span, f"a type is expected here, without the name {found.name.text}")
    return found.type


def _place(given: CText, name: str) -> Span:
    found = list(re.finditer(rf"\b{re.escape(name)}\b", given.text))
    at = given.span.start + (found[0 if len(found) == 1 else -1].start() if found else 0)
    return Span(at, at + len(name))


class _CLexer(Lexer):
    """A lexer to which words that only D has are names. ``complex``: a word of C for complex types has come."""

    complex = False

    def token(self) -> Token:
        found = super().token()
        if found.text in _COMPLEX:
            self.complex = True
            return self.token()
        if found.text in _SAME:
            word = _SAME[found.text]
            kind = TokenKind.KEYWORD if word in KEYWORDS else TokenKind.NAME
            return found._replace(kind=kind, text=word, word=word)
        if found.kind is TokenKind.KEYWORD and found.text not in _OF_C:
            return found._replace(kind=TokenKind.NAME, text=found.text + _MARK, word=found.text)
        return found


class _Declarations(Parser):
    def __init__(self, source: Source, given: CText, tag: AspectTag) -> None:
        lexer = _CLexer(replace(source, text=source.text[: given.span.end]), Substitution(Macros()))
        lexer.position = given.span.start
        first = next((one for one in re.findall(r"[A-Za-z_]\w*", given.text) if one not in KEYWORDS), None)
        super().__init__(lexer, () if first is None else (first,))
        self._c, self._tag, self._fragment = lexer, tag, given

    def whole(self) -> ast.TypeName:
        try:
            found = self.parameter()
            if self.peek().kind is not TokenKind.END:
                raise self.unexpected()
        except Rejected as error:
            raise self._wrong(error.diagnostic.message, error.diagnostic.span) from error
        if not self._c.complex:
            return found
        words = found.base.words if isinstance(found.base, ast.BasicType) else ()
        return ast.TypeName(found.span, ast.BasicType(found.base.span, ("_Complex", *words)), found.declarator)

    def _wrong(self, message: str, span: Span) -> Rejected:
        start = max(self._fragment.span.start, min(span.start, self._fragment.span.end - 1))
        shown = message.replace(_MARK, "")
        return Rejected(
            self._tag,
            Span(start, self._fragment.span.end),
            f"this is no declaration in C: {shown}",
            "int name, char *name[4]",
        )
