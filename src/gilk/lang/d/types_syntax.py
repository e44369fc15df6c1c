# SPDX-License-Identifier: LGPL-2.1-or-later
"""The grammar of types: specifiers, structs and enums, declarators.

The productions are C's, except that the brackets of arrays may contain types.

A docstring that is a grammar rule names the production that the method parses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from gilk.lang.d import ast
from gilk.lang.d.cursor import Cursor
from gilk.lang.d.depth import NESTING, too_deep
from gilk.lang.d.lexer import QUALIFIERS, STORAGE, TAGS, TYPE_WORDS, TokenKind
from gilk.lang.d.specifiers import Specifiers
from gilk.lang.d.tags import SyntaxTag
from gilk.lang.syntax.source import Rejected, Span

_WORDS = TYPE_WORDS | QUALIFIERS
_STARTS_TYPE = _WORDS | TAGS
_STARTS_PARAMETER = _STARTS_TYPE | STORAGE | {"..."}


class Types(Cursor, ABC):
    @abstractmethod
    def conditional(self) -> ast.Expr:
        """Parse the expression of an array's size, a bit-field's width or an enumerator's value."""

    def type_name(self) -> ast.TypeName:
        """type_name: specifier_qualifier_list [abstract_declarator]"""
        start = self.peek().span
        base = self.specifiers(storage=False)[1]
        declarator = self.declarator()
        if declarator.name is not None:
            raise Rejected(SyntaxTag.D_SYNTAX, declarator.span, "a type is expected here, without a name")
        return ast.TypeName(self.since(start), base, declarator)

    def at_type(self, distance: int) -> bool:
        """Whether a type, and not an expression, is ``distance`` tokens ahead, after an opening bracket.

        A name followed by stars and a closing bracket is a type even if no type of that name is known; ``(name)`` is
        one only if the type is known, or if the next token can only begin the operand of a cast.
        """
        token = self.peek(distance)
        if token.kind is not TokenKind.NAME:
            return token.text in _STARTS_TYPE
        if self._at_scoped_tag(distance):
            return True
        after = distance + 1
        while self.peek(after).text == "*":
            after += 1
        then = self.peek(after).text
        if after > distance + 1:
            return then == ")" or (then in ("[", "(") and token.word in self.types)
        if token.word in self.types:
            return then in (")", "[") or (then == "(" and self.peek(after + 1).text == "*")
        return then == ")" and self._operand_at(after + 1)

    def _operand_at(self, distance: int) -> bool:
        """Whether the token begins an operand, and cannot be a binary operator or an index.

        ``(f)(x)`` is always a cast, never a call.
        """
        token = self.peek(distance)
        literal = token.kind in (TokenKind.NAME, TokenKind.NUMBER, TokenKind.TEXT, TokenKind.AGGREGATE)
        return literal or token.text in ("(", "self", "this", "~", "!", "sizeof", "stringof", "offsetof", "xlate")

    def specifiers(self, storage: bool = True) -> tuple[str, ast.BaseType]:
        """declaration_specifiers: (storage_class | type_specifier | type_qualifier)+

        type_specifier: 'void' | 'char' | ... | TYPE_NAME | struct_or_union_specifier | enum_specifier
        """
        start, found, first = self.peek().span, Specifiers(), self.last
        while True:
            token = self.peek()
            if storage and token.text in STORAGE:
                found.store(self.take().text, token.span)
            elif token.text in _WORDS:
                found.words.append(self.take().text)
            elif token.text in TAGS:
                self._once(found, token.span)
                found.check_tag(self.peek(1 + (self.peek(1).kind is TokenKind.NAME)).span)
                found.named = self._enum() if token.text == "enum" else self._struct_or_union()
            elif found.named is None and self._at_scoped_tag(0):
                found.named = self._scoped_tag()
            elif not found.complete and self._names_type(bool(found.storage or found.words)):
                found.named = ast.BasicType(token.span, (self.take().word,))
            else:
                break
        if self.last is first:
            raise self.unexpected("expected a type")
        return found.storage, found.base(self.since(start))

    def _at_scoped_tag(self, distance: int) -> bool:
        """Whether a tag with a module, like lib`struct foo, is ``distance`` tokens ahead."""
        token = self.peek(distance)
        return token.kind is TokenKind.NAME and token.word.rpartition("`")[2] in TAGS

    def _scoped_tag(self) -> ast.TagType:
        """scoped_tag: MODULE '`' ('struct' | 'union' | 'enum') IDENT"""
        start = self.take()
        module, _, kind = start.word.rpartition("`")
        return ast.TagType(self.since(start.span), kind, f"{module}`{self.name().word}")

    def _once(self, found: Specifiers, span: Span) -> None:
        if found.named is not None:
            raise Rejected(SyntaxTag.D_DECL_COMBO, span, "invalid type combination")

    def _names_type(self, something_before: bool) -> bool:
        """Whether the next name is a type; after ``self`` or ``const`` it may also be the name that is declared, as an
        int.
        """
        if self.peek().kind is not TokenKind.NAME:
            return False
        if self.peek().word in self.types or not something_before:
            return True
        return self.peek(1).kind is TokenKind.NAME or self.peek(1).text in ("*", ")")

    def _struct_or_union(self) -> ast.TagType:
        """struct_or_union_specifier: ('struct' | 'union') [IDENT] ['{' struct_declaration* '}']"""
        start = self.take()
        tag = self.take().word if self.peek().kind is TokenKind.NAME else None
        if not self.accept("{"):
            return self._only_tag(start.text, tag, start.span)
        self.unfinished = ast.TagType(self.last, start.text, tag, ())
        members: list[ast.MemberDeclaration] = []
        with self.nested():
            while not self.accept("}"):
                members += self._struct_declaration()
        self.unfinished = None
        return ast.TagType(self.since(start.span), start.text, tag, tuple(members))

    def _only_tag(self, kind: str, tag: str | None, start: Span) -> ast.TagType:
        if tag is None:
            raise self.unexpected(f"expected the tag of a {kind}, or {{")
        return ast.TagType(self.since(start), kind, tag)

    def _struct_declaration(self) -> list[ast.MemberDeclaration]:
        """struct_declaration: specifier_qualifier_list [struct_declarator (',' struct_declarator)*] ';'"""
        start = self.peek().span
        base = self.specifiers(storage=False)[1]
        found = [self._struct_declarator(start, base)]
        while self.accept(","):
            found.append(self._struct_declarator(start, base))
        self.expect(";")
        return found

    def _struct_declarator(self, start: Span, base: ast.BaseType) -> ast.MemberDeclaration:
        """struct_declarator: declarator | [declarator] ':' conditional | (nothing, for an anonymous struct or union)"""
        declarator = self.declarator()
        bits = self.conditional() if self.accept(":") else None
        anonymous = isinstance(base, ast.TagType) and base.members is not None and not declarator.shape
        if declarator.name is None and bits is None and not anonymous:
            if not self.at(";", ","):
                raise self.unexpected("expected the name of a member")
            raise Rejected(SyntaxTag.D_DECL_MNAME, self.since(start), "member declaration requires a name")
        return ast.MemberDeclaration(self.since(start), base, declarator, bits)

    def _enum(self) -> ast.TagType:
        """enum_specifier: 'enum' [IDENT] ['{' enumerator (',' enumerator)* [','] '}']"""
        start = self.take()
        tag = self.take().word if self.peek().kind is TokenKind.NAME else None
        if not self.accept("{"):
            return self._only_tag("enum", tag, start.span)
        found = [self._enumerator()]
        while self.accept(",") and not self.at("}"):
            found.append(self._enumerator())
        self.expect("}")
        return ast.TagType(self.since(start.span), "enum", tag, None, tuple(found))

    def _enumerator(self) -> ast.Enumerator:
        """enumerator: IDENT ['=' conditional]"""
        name = self.name()
        value = self.conditional() if self.accept("=") else None
        return ast.Enumerator(self.since(name.span), self._scoped(name.word, name.span), value, self.peek().span)

    def declarator(self) -> ast.Declarator:
        """declarator: pointer* (IDENT | '(' declarator ')' | nothing) (array | function)*

        pointer: '*' type_qualifier*
        """
        start, before = self.peek().span, self.last
        pointers: list[ast.Shape] = []
        while star := self.accept("*"):
            pointers.append(ast.Pointer(star.span))
            while self.peek().text in QUALIFIERS:
                self.take()
        name, inner = self._direct_declarator()
        suffixes: list[ast.Shape] = []
        while self.at("[", "("):
            suffixes.append(self._array() if self.at("[") else self.function())
        shape = (*inner, *suffixes, *reversed(pointers))
        # The type becomes a chain of nested types.
        if len(shape) > NESTING:
            raise too_deep(start)
        span = Span(before.end, before.end) if self.last is before else self.since(start)
        return ast.Declarator(span, name, shape)

    def _direct_declarator(self) -> tuple[str | None, tuple[ast.Shape, ...]]:
        token, after = self.peek(), self.peek(1)
        if token.kind is TokenKind.NAME:
            return self._scoped(self.take().word, token.span), ()
        is_type = after.kind is TokenKind.NAME and after.word in self.types
        if token.text != "(" or not (after.text in ("*", "(", "[") or (after.kind is TokenKind.NAME and not is_type)):
            return None, ()
        self.take()
        with self.nested():
            inner = self.declarator()
        self.expect(")")
        return inner.name, inner.shape

    def _array(self) -> ast.ArrayOf | ast.KeyedBy:
        """array: '[' [conditional | parameter (',' parameter)*] ']'"""
        start = self.take().span
        if self.accept("]"):
            return ast.ArrayOf(self.since(start), None)
        with self.nested():
            if not self._at_parameter():
                size = self.conditional()
                self.expect("]")
                return ast.ArrayOf(self.since(start), size)
            types, variadic = self._parameters("]")
        if variadic:
            message = "array prototype may not use a variable-length argument list"
            raise Rejected(SyntaxTag.D_DECL_PROTO_VARARGS, self.since(start), message)
        return ast.KeyedBy(self.since(start), types)

    def _at_parameter(self) -> bool:
        token, after = self.peek(), self.peek(1)
        if token.kind is TokenKind.NAME:
            return token.word in self.types or after.kind is TokenKind.NAME
        return token.text in _STARTS_PARAMETER

    def function(self) -> ast.FunctionOf:
        """function: '(' [parameter (',' parameter)* [',' '...'] | '...'] ')'"""
        start = self.expect("(").span
        with self.nested():
            types, variadic = ((), False) if self.accept(")") else self._parameters(")")
        return ast.FunctionOf(self.since(start), types, variadic)

    def _parameters(self, closing: str) -> tuple[tuple[ast.TypeName, ...], bool]:
        found: list[ast.TypeName] = []
        variadic = False
        while not variadic:
            variadic = self.accept("...") is not None
            if not variadic:
                found.append(self.parameter())
            if not self.accept(","):
                break
        self.expect(closing)
        return tuple(found), variadic

    def parameter(self) -> ast.TypeName:
        """parameter: declaration_specifiers [declarator | abstract_declarator]"""
        start = self.peek()
        if start.text in STORAGE and start.text != "register":
            message = "inappropriate storage class for function or associative array parameter"
            raise Rejected(SyntaxTag.D_DECL_PARMCLASS, start.span, message)
        self.accept("register")
        base = self.specifiers(storage=False)[1]
        declarator = self.declarator()
        return ast.TypeName(self.since(start.span), base, declarator)

    def _scoped(self, name: str, span: Span) -> str:
        """``name``, if it can be declared. Raises Rejected."""
        if "`" in name:
            what = f"D scoping operator may not be used in a declaration name ({name})"
            raise Rejected(SyntaxTag.D_DECL_SCOPE, span, what)
        return name
