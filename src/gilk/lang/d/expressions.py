# SPDX-License-Identifier: LGPL-2.1-or-later
"""The grammar of expressions: C's, with ``^^`` between ``&&`` and ``||``, and with the slash that ends a predicate.

A docstring that is a grammar rule names the production that the method parses.
"""

from __future__ import annotations

from collections.abc import Callable

from gilk.lang.d import ast
from gilk.lang.d.depth import HEIGHT, too_deep
from gilk.lang.d.lexer import Token, TokenKind
from gilk.lang.d.tags import SyntaxTag
from gilk.lang.d.types_syntax import Types
from gilk.lang.syntax.source import Rejected, Span

#: Operators, from those that bind least to those that bind most.
_LEVELS = ("||", "^^", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %")
BINDING = {operator: level for level, operators in enumerate(_LEVELS) for operator in operators.split()}
_ASSIGNMENTS = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "^=", "|=", "<<=", ">>="))
_UNARY = frozenset(("+", "-", "~", "!", "*", "&", "++", "--"))
_Wrap = Callable[[ast.Expr], ast.Expr]


class ExpressionParser(Types):
    def expression(self) -> ast.Expr:
        """expression: assignment (',' assignment)*"""
        found = self.assignment()
        for _ in range(HEIGHT):
            if not self.accept(","):
                return found
            right = self.assignment()
            found = ast.Comma(found.span.to(right.span), found, right)
        raise too_deep(found.span)

    def assignment(self) -> ast.Expr:
        """assignment: conditional | unary ASSIGNMENT_OPERATOR assignment"""
        found = self.conditional()
        targets: list[tuple[ast.Expr, str]] = []
        while self.peek().text in _ASSIGNMENTS:
            targets.append((found, self.take().text))
            _bounded(targets, found.span)
            found = self.conditional()
        for target, operator in reversed(targets):
            found = ast.Assign(target.span.to(found.span), operator, target, found)
        return found

    def conditional(self) -> ast.Expr:
        """conditional: binary | binary '?' expression ':' conditional"""
        found = self._binary()
        above: list[tuple[ast.Expr, ast.Expr]] = []
        while self.accept("?"):
            with self.nested():
                above.append((found, self.expression()))
            self.expect(":")
            _bounded(above, found.span)
            found = self._binary()
        for test, yes in reversed(above):
            found = ast.Conditional(test.span.to(found.span), test, yes, found)
        return found

    def _binary(self) -> ast.Expr:
        """binary: cast | binary OPERATOR binary

        The operators are parsed by precedence with an explicit stack, since recursion would take eleven levels for each
        bracket.
        """
        operands, operators = [self._cast()], list[str]()
        links = 0
        while self._at_operator():
            operator = self.take().text
            while operators and BINDING[operators[-1]] >= BINDING[operator]:
                _reduce(operands, operators)
            operators.append(operator)
            operands.append(self._cast())
            links += 1
            if links > HEIGHT:
                raise too_deep(operands[0].span)
        while operators:
            _reduce(operands, operators)
        return operands[0]

    def _at_operator(self) -> bool:
        """Whether an operator comes next. A slash before a brace, a semicolon, a slash or the end is none: it ends the
        predicate.
        """
        text = self.peek().text
        if text != "/":
            return text in BINDING
        return self.peek(1).text not in ("{", ";", "/", "")

    def _cast(self) -> ast.Expr:
        """cast: unary | '(' type_name ')' cast

        unary: postfix | UNARY_OPERATOR cast | ('sizeof' | 'stringof') unary | 'sizeof' '(' type_name ')'
        """
        wraps: list[_Wrap] = []
        while wrap := self._prefix():
            wraps.append(wrap)
            _bounded(wraps, self.last)
        found = self._postfix()
        for wrap in reversed(wraps):
            found = wrap(found)
        return found

    def _prefix(self) -> _Wrap | None:
        """Take one prefix, and return the function that applies it to its operand; None if no prefix comes next."""
        token = self.peek()
        if token.text in _UNARY:
            self.take()
            return lambda operand: ast.Unary(token.span.to(operand.span), token.text, operand)
        if token.text == "stringof":
            self.take()
            return lambda operand: ast.Stringof(token.span.to(operand.span), operand)
        if token.text == "sizeof" and not (self.peek(1).text == "(" and self.at_type(2)):
            self.take()
            return lambda operand: ast.Sizeof(token.span.to(operand.span), operand)
        if token.text != "(" or not self.at_type(1):
            return None
        type_ = self._bracketed_type()
        return lambda operand: ast.Cast(token.span.to(operand.span), type_, operand)

    def _bracketed_type(self) -> ast.TypeName:
        self.expect("(")
        with self.nested():
            found = self.type_name()
        self.expect(")")
        return found

    def _postfix(self) -> ast.Expr:
        """postfix: primary ('[' arguments ']' | '(' [arguments] ')' | ('.' | '->') IDENT | '++' | '--')*"""
        found = self._primary()
        for _ in range(HEIGHT):
            token = self.peek()
            if token.text == "[":
                found = self._index(found)
            elif token.text == "(":
                found = self._call(found)
            elif token.text in (".", "->"):
                self.take()
                name = self.member_name()
                found = ast.Member(self.since(found.span), found, name.word, token.text == "->")
            elif token.text in ("++", "--"):
                found = ast.Postfix(found.span.to(self.take().span), token.text, found)
            else:
                return found
        raise too_deep(found.span)

    def _index(self, base: ast.Expr) -> ast.Expr:
        self.take()
        keys = self._arguments("]")
        if isinstance(base, ast.Aggregate) and base.keys is None:
            return ast.Aggregate(self.since(base.span), base.name, keys)
        return ast.Index(self.since(base.span), base, keys)

    def _call(self, function: ast.Expr) -> ast.Expr:
        if not isinstance(function, ast.Name):
            raise Rejected(SyntaxTag.D_FUNC_IDENT, function.span, "function designator is not a function")
        self.take()
        arguments = () if self.accept(")") else self._arguments(")")
        return ast.Call(self.since(function.span), function.name, arguments)

    def _arguments(self, closing: str) -> tuple[ast.Expr, ...]:
        """arguments: assignment (',' assignment)*"""
        with self.nested():
            found = [self.assignment()]
            while self.accept(","):
                found.append(self.assignment())
        self.expect(closing)
        return tuple(found)

    def _primary(self) -> ast.Expr:
        """primary: IDENT | AGGREGATE | NUMBER | STRING+ | ('self' | 'this') '->' IDENT | '(' expression ')'

        primary: 'sizeof' '(' type_name ')' | offsetof | xlate
        """
        token = self.peek()
        match token.kind:
            case TokenKind.NAME:
                return self._name(self.take())
            case TokenKind.NUMBER:
                return _number(self.take())
            case TokenKind.TEXT:
                return self._text()
            case TokenKind.AGGREGATE:
                return ast.Aggregate(self.take().span, token.word)
        match token.text:
            case "self" | "this":
                return self._variable()
            case "(":
                return self._bracketed()
            case "sizeof":
                self.take()
                type_ = self._bracketed_type()
                return ast.SizeofType(self.since(token.span), type_)
            case "offsetof":
                return self._offsetof()
            case "xlate":
                return self._xlate()
        raise self.unexpected()

    def _bracketed(self) -> ast.Expr:
        self.expect("(")
        with self.nested():
            found = self.expression()
        self.expect(")")
        return found

    def _name(self, token: Token) -> ast.Expr:
        module, backquote, name = token.word.rpartition("`")
        if not backquote:
            return ast.Name(token.span, name)
        return ast.Symbol(token.span, module, name)

    def _text(self) -> ast.Text:
        """STRING+: adjacent strings are one."""
        found = [self.take()]
        while self.peek().kind is TokenKind.TEXT:
            found.append(self.take())
        return ast.Text(self.since(found[0].span), "".join(one.word for one in found))

    def _variable(self) -> ast.Variable:
        scope = self.take()
        self.expect("->")
        name = self.member_name()
        return ast.Variable(self.since(scope.span), scope.text, name.word)

    def _offsetof(self) -> ast.Offsetof:
        """offsetof: 'offsetof' '(' type_name ',' IDENT ')'"""
        start = self.take().span
        self.expect("(")
        with self.nested():
            type_ = self.type_name()
        self.expect(",")
        member = self.member_name()
        self.expect(")")
        return ast.Offsetof(self.since(start), type_, member.word)

    def _xlate(self) -> ast.Xlate:
        """xlate: 'xlate' '<' type_name '>' '(' expression ')'"""
        start = self.take().span
        self.expect("<")
        type_ = self.type_name()
        self.expect(">")
        operand = self._bracketed()
        return ast.Xlate(self.since(start), type_, operand)


def _number(token: Token) -> ast.Expr:
    """The tree of a number. A macro argument may be negative, but a literal is not: ``-1`` becomes a minus and a 1."""
    number = ast.Number(token.span, abs(token.number), token.suffix, token.decimal)
    return ast.Unary(token.span, "-", number) if token.number < 0 else number


def _reduce(operands: list[ast.Expr], operators: list[str]) -> None:
    right, left = operands.pop(), operands.pop()
    operands.append(ast.Binary(left.span.to(right.span), operators.pop(), left, right))


def _bounded(chain: list[_Wrap] | list[tuple[ast.Expr, str]] | list[tuple[ast.Expr, ast.Expr]], span: Span) -> None:
    if len(chain) > HEIGHT:
        raise too_deep(span)
