# SPDX-License-Identifier: LGPL-2.1-or-later
"""The parser of D programs, from text to tree; this file has clauses and their statements.

A docstring that is a grammar rule names the production that the method parses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gilk.lang.d import ast, items
from gilk.lang.d.definitions import Definitions
from gilk.lang.d.depth import HEIGHT, check_height, too_deep
from gilk.lang.d.lexer import Lexer, TokenKind
from gilk.lang.d.macros import Macros, Substitution
from gilk.lang.d.tags import SyntaxTag
from gilk.lang.syntax.source import Diagnostic, Rejected, Source, Span
from gilk.values import dataclass

_ACTIONS = "a clause is: probes / predicate / { actions }"


@dataclass(frozen=True, slots=True)
class Parsed:
    """The result of parsing. ``program`` is None if it could not be read. ``used``: the numbers of the macro arguments
    that it uses.

    ``begun``: if it could not be read, the items before the first mistake, and the mistake as the last item.
    """

    program: items.ProgramSyntax | None
    diagnostics: tuple[Diagnostic, ...] = ()
    used: frozenset[int] = frozenset()
    begun: items.ProgramSyntax | None = None


def parse(
    source: Source,
    macros: Macros | None = None,
    types: Iterable[str] = (),
    pspec: bool = False,
    script: bool = False,
) -> Parsed:
    """Read a program. ``types``: names of types from elsewhere, in addition to D's own and those that the program
    declares. ``pspec``: the option. ``script``: whether the text is of a file, whose last description needs a
    predicate or actions, too.

    Reading stops at the first mistake, like DTrace, since later errors mostly follow from the first.
    """
    substitution = Substitution(macros or Macros())
    parser = Parser(Lexer(source, substitution, pspec), types, script)
    try:
        program = parser.program()
        wrong = tuple(
            Diagnostic(SyntaxTag.D_MACRO_UNUSED, Span(0, 0), f"extraneous argument '{one}' (${i} is not referenced)")
            for i, one in substitution.unused()
        )
    except Rejected as error:
        program, wrong = parser.begun(), (error.diagnostic,)
    used = frozenset(substitution.used)
    if not wrong:
        return Parsed(program, (), used)
    rest = items.Unreadable(wrong[0].span, wrong[0])
    return Parsed(None, wrong, used, replace(program, items=(*program.items, rest)))


class Parser(Definitions):
    def __init__(self, lexer: Lexer, types: Iterable[str] = (), script: bool = False) -> None:
        super().__init__(lexer, types)
        self._script = script
        self._found: list[items.Item] = []

    def program(self) -> items.ProgramSyntax:
        """program: (clause | declaration | inline | translator | provider)*"""
        while (item := self._item()) is not None:
            check_height(item)
            self._found.append(item)
        return self.so_far()

    def so_far(self) -> items.ProgramSyntax:
        """The items that were read, with the pragmas among them in the order of the text."""
        found = sorted((*self._found, *self.lexer.pragmas), key=lambda item: item.span.start)
        return items.ProgramSyntax(self.lexer.source, tuple(found), tuple(self.lexer.markers))

    def begun(self) -> items.ProgramSyntax:
        """The items before a mistake. A struct counts from its brace on: that it was declared before is the first
        mistake, as in DTrace."""
        found, struct = self.so_far(), self.unfinished
        if struct is None or struct.tag is None:
            return found
        return replace(found, items=(*found.items, items.Declaration(struct.span, "", struct, ())))

    def _item(self) -> items.Item | None:
        # No token may be peeked at before this: the next text may not consist of tokens of expressions.
        if self.lexer.at_description(self.types):
            return self._clause()
        match self.peek().text:
            case "":
                return None
            case "inline":
                return self.inline()
            case "translator":
                return self.translator()
            case "provider":
                return self.provider()
            case "}":
                raise Rejected(SyntaxTag.D_SYNTAX, self.peek().span, 'syntax error near "}"')
        return self.declaration()

    def _clause(self) -> items.Clause:
        """clause: description (',' description)* ['/' expression '/'] '{' statement* '}'

        A description may stand alone at the end of a program that is no script, as in ``-n BEGIN``.
        """
        probes = [self.lexer.description()]
        while self.accept(","):
            probes.append(self.lexer.description())
        predicate = self._predicate() if self.at("/") else None
        if not self.at("{") and (predicate is not None or self._script or self.peek().kind is not TokenKind.END):
            what = "actions { }" if predicate is not None else "predicate and/or actions"
            after = "probe description and predicate" if predicate is not None else "probe description"
            at = predicate.span if predicate is not None else probes[0].span
            raise Rejected(SyntaxTag.D_SYNTAX, at, f"expected {what} following {after}", _ACTIONS)
        body = self._block() if self.at("{") else None
        last = body.span if body else probes[-1].span
        return items.Clause(probes[0].span.to(last), tuple(probes), predicate, body)

    def _predicate(self) -> ast.Expr:
        self.expect("/")
        found = self.expression()
        self.expect("/")
        return found

    def _block(self) -> items.StatementBlock:
        """block: '{' (statement | ';')* '}'"""
        start = self.expect("{").span
        found: list[items.Statement] = []
        with self.nested():
            while not self.accept("}"):
                if not self.accept(";"):
                    found.append(self._statement())
        return items.StatementBlock(self.since(start), tuple(found))

    def _statement(self) -> items.Statement:
        """statement: block | if | expression (';' | before a '}')"""
        match self.peek().text:
            case "{":
                return self._block()
            case "if":
                return self._if()
        found = self.expression()
        if not self.accept(";") and not self.at("}"):
            raise self.unexpected("expected ;")
        return items.ExpressionStatement(found.span, found)

    def _if(self) -> items.If:
        """if: 'if' '(' expression ')' branch ['else' branch]"""
        heads = [self._if_head()]
        otherwise: items.StatementBlock | None = None
        while self.accept("else"):
            if not self.at("if"):
                otherwise = self._branch()
                break
            heads.append(self._if_head())
            if len(heads) > HEIGHT:
                raise too_deep(self.last)
        while True:
            start, test, then = heads.pop()
            found = items.If(start.to((otherwise or then).span), test, then, otherwise)
            if not heads:
                return found
            otherwise = items.StatementBlock(found.span, (found,))

    def _if_head(self) -> tuple[Span, ast.Expr, items.StatementBlock]:
        start = self.expect("if").span
        test = self._bracketed()
        return start, test, self._branch()

    def _branch(self) -> items.StatementBlock:
        """branch: block | statement | ';'"""
        if self.at("{"):
            return self._block()
        if nothing := self.accept(";"):
            return items.StatementBlock(nothing.span, ())
        with self.nested():
            found = self._statement()
        return items.StatementBlock(found.span, (found,))
