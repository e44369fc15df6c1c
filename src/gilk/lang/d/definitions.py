# SPDX-License-Identifier: LGPL-2.1-or-later
"""The grammar of declarations, inlines, translators and providers, which stand outside of clauses.

A docstring that is a grammar rule names the production that the method parses.
"""

from __future__ import annotations

from collections.abc import Iterable

from gilk.lang.d import ast, items
from gilk.lang.d.expressions import ExpressionParser
from gilk.lang.d.lexer import Lexer, TokenKind
from gilk.lang.d.tags import SyntaxTag
from gilk.lang.syntax.source import Rejected, Span


class Definitions(ExpressionParser):
    def __init__(self, lexer: Lexer, types: Iterable[str] = ()) -> None:
        super().__init__(lexer, types)
        self._own_types: set[str] = set()

    def declaration(self) -> items.Declaration:
        """declaration: declaration_specifiers [declarator (',' declarator)*] ';'"""
        start = self.peek().span
        storage, base = self.specifiers()
        found: list[ast.Declarator] = []
        if not self.at(";"):
            found.append(self._declared(storage))
            while self.accept(","):
                found.append(self._declared(storage))
        if not found and isinstance(base, ast.BasicType):
            raise Rejected(SyntaxTag.D_DECL_USELESS, self.since(start), "useless declaration")
        if self.peek().kind is TokenKind.NAME:
            raise Rejected(
                SyntaxTag.D_DECL_IDENT, self.peek().span, "old-style declaration or incorrect type specified"
            )
        self.expect(";")
        return items.Declaration(self.since(start), storage, base, tuple(found))

    def _declared(self, storage: str) -> ast.Declarator:
        """One declarator, which must have a name. From now on the name is a type, or no longer one. Raises Rejected."""
        found = self.declarator()
        if found.name is None:
            raise self.unexpected("expected a name to declare")
        if any(isinstance(one, ast.ArrayOf) and one.size is None for one in found.shape) and storage != "extern":
            raise Rejected(
                SyntaxTag.D_DECL_ARRNULL,
                found.span,
                f"array declaration requires array dimension or tuple signature: {found.name}",
            )
        if storage == "typedef":
            self._define_type(found.name, found.span)
        elif not storage:
            self.types.discard(found.name)
        return found

    def _define_type(self, name: str, span: Span) -> None:
        if name in self._own_types:
            raise Rejected(SyntaxTag.D_DECL_IDRED, span, f"typedef redeclared: {name}")
        self._own_types.add(name)
        self.types.add(name)

    def inline(self) -> items.Inline:
        """inline: 'inline' declaration_specifiers declarator '=' assignment ';'"""
        start = self.expect("inline").span
        storage, base = self.specifiers()
        if storage:
            message = "specified storage class not appropriate for inline"
            raise Rejected(SyntaxTag.D_DECL_BADCLASS, self.since(start), message)
        declarator = self._declared("")
        self.expect("=")
        value = self.assignment()
        self.expect(";")
        return items.Inline(self.since(start), base, declarator, value)

    def translator(self) -> items.Translator:
        """translator: 'translator' type_name '<' type_name IDENT '>' '{' (IDENT '=' assignment ';')* '}' ';'"""
        start = self.expect("translator").span
        output = self.type_name()
        self.expect("<")
        given = self.parameter()
        name = given.declarator.name
        if name is None:
            raise self.unexpected("expected a name for what is translated")
        self.expect(">")
        self.expect("{")
        members: list[items.TranslatorMember] = []
        while not self.accept("}"):
            members.append(self._translator_member())
        self.expect(";")
        nameless = ast.Declarator(given.declarator.span, None, given.declarator.shape)
        input_ = ast.TypeName(given.span, given.base, nameless)
        return items.Translator(self.since(start), output, input_, name, tuple(members))

    def _translator_member(self) -> items.TranslatorMember:
        name = self.member_name()
        self.expect("=")
        value = self.assignment()
        self.expect(";")
        return items.TranslatorMember(self.since(name.span), name.word, value, self.peek().span)

    def provider(self) -> items.ProviderDefinition:
        """provider: 'provider' IDENT '{' probe* '}' ';'"""
        start = self.expect("provider").span
        name = self.name()
        self.expect("{")
        probes: list[items.ProbeDefinition] = []
        while not self.accept("}"):
            probes.append(self._probe())
        self.expect(";")
        return items.ProviderDefinition(self.since(start), name.word, tuple(probes))

    def _probe(self) -> items.ProbeDefinition:
        """probe: 'probe' IDENT function [':' function] ';'"""
        start = self.expect("probe").span
        name = self.name()
        native = self._given()
        translated = self._given() if self.accept(":") else None
        self.expect(";")
        return items.ProbeDefinition(self.since(start), name.word, native, translated)

    def _given(self) -> ast.FunctionOf:
        found = self.function()
        if found.variadic:
            message = "probe prototype may not use a variable-length argument list"
            raise Rejected(SyntaxTag.D_DECL_PROTO_VARARGS, found.span, message)
        return found
