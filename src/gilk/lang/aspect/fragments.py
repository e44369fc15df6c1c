# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trees of C fragments as far as D's grammar of expressions reaches; the result is None for other fragments.

The statements that can be read are expressions, declarations with an initial value, if, return and blocks.

A docstring that is a grammar rule names the production that the method parses.
"""

from __future__ import annotations

import functools
import re
from typing import TypeAlias

from gilk.lang.d import ast
from gilk.lang.d.depth import HEIGHT, check_height, too_deep
from gilk.lang.d.lexer import Lexer, TokenKind
from gilk.lang.d.macros import Macros, Substitution
from gilk.lang.d.parser import Parser
from gilk.lang.d.unparse import expression as unparsed
from gilk.lang.syntax.source import Rejected, Source
from gilk.lang.types import ALIASES, VOID, Array, Pointer, Type, basic
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Doing:
    value: ast.Expr


@dataclass(frozen=True, slots=True)
class Declaring:
    """A declared variable; ``value`` is None if it has no initial value."""

    name: str
    type: Type | None
    value: ast.Expr | None


@dataclass(frozen=True, slots=True)
class LocalNames:
    names: tuple[Declaring, ...]


@dataclass(frozen=True, slots=True)
class Returning:
    value: ast.Expr | None


@dataclass(frozen=True, slots=True)
class Branching:
    test: ast.Expr
    then: Fragment
    otherwise: Fragment | None


@dataclass(frozen=True, slots=True)
class Several:
    statements: tuple[Fragment, ...]


_LINE_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', re.DOTALL)
#: The number of fragments whose trees are cached; the fragments of an aspect are needed at each event.
_KEPT = 4096

Fragment: TypeAlias = Doing | LocalNames | Returning | Branching | Several


@functools.lru_cache(_KEPT)
def expression(text: str) -> ast.Expr | None:
    """The tree of an expression; None if it uses parts of C that D does not have."""
    try:
        parser = _Fragments(_lexer(text))
        found = parser.expression()
        parser.end()
        check_height(found)
    except Rejected:
        return None
    return found


@functools.lru_cache(_KEPT)
def block(text: str) -> Fragment | None:
    """The tree of a block in braces, or of one call; None if a statement is of a kind that cannot be read."""
    try:
        parser = _Fragments(_lexer(text))
        found = parser.fragment() if parser.at("{") else Doing(parser.expression())
        parser.end()
    except Rejected:
        return None
    return found


@functools.lru_cache(_KEPT)
def normal(text: str) -> str:
    """The normal text of an expression, which is the same for all ways to write blanks and brackets."""
    found = expression(text)
    return unparsed(found) if found is not None else " ".join(text.split())


@functools.lru_cache(_KEPT)
def ctype(text: str) -> Type | None:
    """The type that C's words stand for; a pointer to an unknown type becomes a pointer to void. None for a struct or
    typedef.
    """
    try:
        parser = _Fragments(_lexer(text))
        found = parser.type_name()
        parser.end()
    except Rejected:
        return None
    return _type(found.base, found.declarator)


def _lexer(text: str) -> Lexer:
    """A lexer for the fragment; C's comments to the end of a line, which D does not have, are removed."""
    plain = _LINE_COMMENT.sub(lambda found: " " if found[0].startswith("//") else found[0], text)
    return Lexer(Source("fragment", plain), Substitution(Macros()))


def _type(base: ast.BaseType, declarator: ast.Declarator) -> Type | None:
    found: Type | None = None
    if isinstance(base, ast.BasicType):
        plain = tuple(word for word in base.words if word not in ("const", "volatile", "restrict"))
        found = ALIASES.get(plain[0]) if len(plain) == 1 and plain[0] in ALIASES else basic(base.words)
    for shape in reversed(declarator.shape):
        match shape:
            case ast.Pointer() | ast.ArrayOf(size=None):
                found = Pointer(found if found is not None else VOID)
            case ast.ArrayOf(size=ast.Number(value=count)) if found is not None:
                found = Array(found, count)
            case _:
                return None
    return found


class _Fragments(Parser):
    """A parser of statements; it uses only the productions of D's parser for expressions and types."""

    def end(self) -> None:
        if self.peek().kind is not TokenKind.END:
            raise self.unexpected("expected the end")

    def fragment(self) -> Fragment:
        """fragment: '{' fragment* '}' | if | return | declaration | [expression] ';'"""
        match self.peek().text:
            case "{":
                return self._several()
            case "if":
                return self._branching()
            case ";":
                self.take()
                return Several(())
            case "return":
                return self._returning()
        if self._at_declaration():
            return self._declaring()
        found = self._low()
        self.expect(";")
        return Doing(found)

    def _low(self) -> ast.Expr:
        found = self.expression()
        check_height(found)
        return found

    def _several(self) -> Fragment:
        """'{' fragment* '}'"""
        self.expect("{")
        found: list[Fragment] = []
        with self.nested():
            while not self.accept("}"):
                found.append(self.fragment())
        return Several(tuple(found))

    def _branching(self) -> Fragment:
        """'if' '(' expression ')' fragment ['else' fragment]"""
        self.expect("if")
        self.expect("(")
        test = self._low()
        self.expect(")")
        with self.nested():
            then = self.fragment()
            otherwise = self.fragment() if self.accept("else") else None
        return Branching(test, then, otherwise)

    def _returning(self) -> Fragment:
        """'return' [expression] ';'"""
        self.expect("return")
        value = None if self.at(";") else self._low()
        self.expect(";")
        return Returning(value)

    def _at_declaration(self) -> bool:
        """Whether a declaration begins here: with a keyword of a type, or with a name before another name or before
        stars and a name.
        """
        token = self.peek()
        if token.kind is not TokenKind.NAME:
            return token.kind is TokenKind.KEYWORD and token.text not in ("sizeof", "offsetof")
        after = 1
        while self.peek(after).text == "*":
            after += 1
        then = self.peek(after).kind is TokenKind.NAME and self.peek(after + 1).text in ("=", ";", ",", "[")
        return then and (after == 1 or token.word in self.types)

    def _declaring(self) -> Fragment:
        """type declarator ['=' assignment] (',' declarator ['=' assignment])* ';'"""
        base = self.specifiers(storage=False)[1]
        found: list[Declaring] = []
        while True:
            declarator = self.declarator()
            if declarator.name is None:
                raise self.unexpected("expected a name")
            value = self.assignment() if self.accept("=") else None
            found.append(Declaring(declarator.name, _type(base, declarator), value))
            if len(found) > HEIGHT:
                raise too_deep(self.last)
            if not self.accept(","):
                break
        self.expect(";")
        return LocalNames(tuple(found))
