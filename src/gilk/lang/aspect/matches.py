# SPDX-License-Identifier: LGPL-2.1-or-later
"""The reader of matches: the grammar of join points and qualifiers. parser.py builds the grammar of files on it.

A docstring that is a grammar rule names the production that the method parses.
"""

from __future__ import annotations

from gilk.lang.aspect import ast
from gilk.lang.aspect.declaration import declared
from gilk.lang.aspect.scanner import AspectScanner, AspectToken, Lexeme
from gilk.lang.aspect.signature import call_pattern, code_pattern, global_pattern
from gilk.lang.aspect.tags import AspectTag
from gilk.lang.syntax.source import Rejected, Source, Span

_GIVES = ("return", "value", "old", "size", "offset")
_QUALIFIERS = (*_GIVES, "args", "bind", "if", "from", "in")
_POINTS = "call, readGlobal, writeGlobal, read, write, controlflow, controlflowstar, a pointcut or ( match || match )"
#: How deeply brackets of matches may be nested.
_NESTING = 30


class MatchReader:
    """The productions for matches, and the reading of tokens that all productions use."""

    def __init__(self, source: Source) -> None:
        self.source, self.scanner = source, AspectScanner(source)
        self.last = Span(0, 0)
        self._depth = 0

    def peek(self) -> AspectToken:
        return self.scanner.token()

    def take(self) -> AspectToken:
        token = self.peek()
        self.scanner.position = token.span.end
        self.last = token.span
        return token

    def accept(self, *texts: str) -> AspectToken | None:
        return self.take() if self.peek().text in texts else None

    def expect(self, text: str, hint: str = "") -> AspectToken:
        if self.peek().text != text:
            raise self.unexpected(f"expected {text}", hint)
        return self.take()

    def name(self, what: str = "a name") -> ast.Ident:
        if self.peek().kind is not Lexeme.NAME:
            raise self.unexpected(f"expected {what}")
        token = self.take()
        return ast.Ident(token.span, token.text)

    def names(self, what: str = "a name") -> tuple[ast.Ident, ...]:
        """names: NAME {',' NAME}"""
        found = [self.name(what)]
        while self.accept(","):
            found.append(self.name(what))
        return tuple(found)

    def since(self, start: Span) -> Span:
        return start.to(Span(self.scanner.position, self.scanner.position))

    def unexpected(self, message: str, hint: str = "") -> Rejected:
        token = self.peek()
        found = f"{token.text[:40]!r} stands here" if token.text else "the file ends"
        return Rejected(AspectTag.A_SYNTAX, token.span, f"{message}, but {found}", hint)

    def match(self) -> ast.Match:
        """match: term {'&&' qualifier}"""
        start = self.peek().span
        term = self._term()
        qualifiers: list[ast.Qualifier] = []
        while self.accept("&&"):
            qualifiers.append(self._qualifier())
        return ast.Match(self.since(start), term, tuple(qualifiers))

    def _term(self) -> ast.Term:
        token = self.peek()
        if token.text == "(":
            return self._either()
        if token.kind is not Lexeme.NAME:
            raise self.unexpected("expected a join point", f"a join point is {_POINTS}")
        match token.text:
            case "call":
                return self._call()
            case "readGlobal" | "writeGlobal":
                return self._global()
            case "read" | "write":
                return self._alias()
            case "controlflow" | "controlflowstar":
                return self._flow()
        return self._use()

    def _either(self) -> ast.EitherPattern:
        """'(' match {'||' match} ')'"""
        start = self.expect("(").span
        if self._depth == _NESTING:
            raise Rejected(AspectTag.A_SYNTAX, start, "too deeply nested", "use pointcuts with names")
        self._depth += 1
        found = [self.match()]
        while self.accept("||"):
            found.append(self.match())
        self._depth -= 1
        self.expect(")", "several matches are joined by ||, qualifiers by &&")
        return ast.EitherPattern(self.since(start), tuple(found))

    def _call(self) -> ast.CallPattern:
        """call: 'call' '(' ctype [image ':'] function '(' (params | '..') ')' ')'"""
        start = self.expect("call").span
        self.expect("(")
        found = call_pattern(self.scanner, start)
        self.expect(")")
        return found

    def _global(self) -> ast.GlobalPattern:
        """('readGlobal' | 'writeGlobal') '(' ctype [image ':'] name {'.' member} ')'"""
        word = self.take()
        self.expect("(")
        found = global_pattern(self.scanner, word.span, word.text == "writeGlobal")
        self.expect(")")
        return found

    def _alias(self) -> ast.AliasPattern:
        """('read' | 'write') '(' name [',' length] ')'"""
        word = self.take()
        self.expect("(")
        name = self.name("the name of what has bound an address")
        length = self.scanner.c_before(")", "a length") if self.accept(",") else None
        self.expect(")")
        return ast.AliasPattern(self.since(word.span), word.text == "write", name, length)

    def _flow(self) -> ast.FlowPattern:
        """('controlflow' | 'controlflowstar') '(' call {',' call} ',' (call | access) ')'"""
        word = self.take()
        self.expect("(")
        outer = [self._call()]
        self.expect(",", "a control flow has two elements at the least")
        while (last := self._last_of_flow()) is not None and self.accept(","):
            if not isinstance(last, ast.CallPattern):
                raise Rejected(AspectTag.A_SYNTAX, last.span, "an access can only be the last of a control flow")
            outer.append(last)
        self.expect(")")
        return ast.FlowPattern(self.since(word.span), word.text == "controlflow", tuple(outer), last)

    def _last_of_flow(self) -> ast.CallPattern | ast.GlobalPattern:
        if self.peek().text in ("readGlobal", "writeGlobal"):
            return self._global()
        if self.peek().text != "call":
            raise self.unexpected("expected call, readGlobal or writeGlobal")
        return self._call()

    def _use(self) -> ast.PointcutUse:
        """name '(' [names] ')'"""
        name = self.name()
        self.expect("(", f"a join point is {_POINTS}")
        arguments = () if self.peek().text == ")" else self.names("a name for what the pointcut binds, or _")
        self.expect(")")
        return ast.PointcutUse(self.since(name.span), name, arguments)

    def _qualifier(self) -> ast.Qualifier:
        word = self.peek()
        if word.text not in _QUALIFIERS:
            raise self.unexpected("expected a qualifier", f"a qualifier is one of {', '.join(_QUALIFIERS)}")
        self.take()
        self.expect("(")
        found = self._qualified(word)
        self.expect(")")
        return found

    def _qualified(self, word: AspectToken) -> ast.Qualifier:
        match word.text:
            case "args":
                names = () if self.peek().text == ")" else self.names("a name, or _")
                return ast.ArgsQualifier(self.since(word.span), names)
            case "bind":
                return self._bind(word)
            case "if":
                condition = self.scanner.c_before(")", "a condition")
                return ast.IfQualifier(self.since(word.span), condition)
            case "from":
                return ast.FromQualifier(self.since(word.span), self._patterns())
            case "in":
                return ast.InQualifier(self.since(word.span), self._patterns())
        name = self.name()
        return ast.GivesQualifier(self.since(word.span), word.text, name)

    def _bind(self, word: AspectToken) -> ast.BindQualifier:
        """'bind' '(' (declaration | name) ',' C-expression ')'"""
        given = self.scanner.c_before(",)", "a name, or a declaration")
        if given.text.isidentifier() and given.text.isascii():
            name, type_ = ast.Ident(given.span, given.text), None
        else:
            made = declared(self.source, given, AspectTag.A_C)
            if made.name is None:
                raise Rejected(AspectTag.A_C, given.span, "this declares no name", "bind(int name, expression)")
            name, type_ = made.name, made.type
        self.expect(",", "bind(int name, expression)")
        expression = self.scanner.c_before(")", "an expression")
        return ast.BindQualifier(self.since(word.span), name, type_, expression)

    def _patterns(self) -> tuple[ast.CodePattern, ...]:
        found = [code_pattern(self.scanner)]
        while self.accept(","):
            found.append(code_pattern(self.scanner))
        return tuple(found)
