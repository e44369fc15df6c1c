# SPDX-License-Identifier: LGPL-2.1-or-later
"""The parser of a file of aspects, from its text to its tree.

A docstring that is a grammar rule names the production that the method parses.
"""

from __future__ import annotations

from gilk.lang.aspect import ast
from gilk.lang.aspect.declaration import declared, type_of
from gilk.lang.aspect.matches import MatchReader
from gilk.lang.aspect.scanner import Lexeme
from gilk.lang.aspect.signature import declarations
from gilk.lang.aspect.tags import AspectTag
from gilk.lang.syntax.source import Rejected, Source, Span
from gilk.spec import duration

_FLAGS = ("perthread", "perprocess", "partial", "verify", "walk", "debugreg")
_FOLDS = ("count", "sum", "min", "max", "avg", "stddev", "quantize")
_MOST = 1 << 24  # instances


def read_aspects(source: Source) -> ast.AspectFile:
    """The tree of a file. Raises Rejected at the first mistake, since later ones mostly follow from it."""
    return _AspectReader(source).file()


class _AspectReader(MatchReader):
    def file(self) -> ast.AspectFile:
        """file: {C-part | types | group | table | pointcut | aspect}"""
        found = list[ast.FileItem]()
        while self.peek().kind is not Lexeme.END:
            found.append(self._item())
        return ast.AspectFile(self.source, tuple(found))

    def _item(self) -> ast.FileItem:
        match self.peek().text:
            case "%{" | "%K{":
                return self._c_part()
            case "types":
                return self._types()
            case "group":
                return self._group()
            case "table":
                return self._table()
            case "pointcut":
                return self._pointcut()
        return self._aspect()

    def _c_part(self) -> ast.CPart:
        opening = self.take()
        code = self.scanner.c_part()
        return ast.CPart(self.since(opening.span), opening.text == "%K{", code)

    def _types(self) -> ast.TypesItem:
        """'types' image {',' image} ';'"""
        start = self.take().span
        images = [self._image()]
        while self.accept(","):
            images.append(self._image())
        self.expect(";")
        return ast.TypesItem(self.since(start), tuple(images))

    def _image(self) -> ast.Ident:
        given = self.scanner.c_before(",;", "an image")
        if not all(one.isalnum() or one in "_.+-" for one in given.text):
            raise Rejected(AspectTag.A_SYNTAX, given.span, "this is no name of an image", "types nginx, libc;")
        return ast.Ident(given.span, given.text)

    def _group(self) -> ast.GroupItem:
        """'group' name ['=' names] ';'"""
        start = self.take().span
        name = self.name("the name of a group")
        self._expect_here()
        of = self.names("the name of a group") if self.accept("=") else ()
        self._expect_here()
        self.expect(";")
        return ast.GroupItem(self.since(start), name, of)

    def _table(self) -> ast.TableItem:
        """'table' name 'key' '(' ctypes ')' fold ';'"""
        start = self.take().span
        name = self.name("the name of a table")
        self.expect("key", "table name key(int) sum;")
        self.expect("(")
        key = [type_of(self.source, self.scanner.c_before(",)", "the type of a key"), AspectTag.A_C)]
        while self.accept(","):
            key.append(type_of(self.source, self.scanner.c_before(",)", "the type of a key"), AspectTag.A_C))
        self.expect(")")
        fold = self.name("how values are folded")
        if fold.text not in _FOLDS:
            raise Rejected(
                AspectTag.A_SYNTAX, fold.span, f"no values are folded by {fold.text}", f"one of {', '.join(_FOLDS)}"
            )
        self.expect(";")
        return ast.TableItem(self.since(start), name, tuple(key), fold)

    def _pointcut(self) -> ast.PointcutItem:
        """'pointcut' name '(' params ')' '=' match ';'"""
        start = self.take().span
        name = self.name("the name of a pointcut")
        opened = self.expect("(").span
        given = list[ast.CText]()
        while self.peek().text != ")":
            given.append(self.scanner.c_before(",)", "a parameter"))
            if not self.accept(","):
                break
        self.expect(")")
        parameters, variadic = declarations(self.source, given, self.since(opened))
        for one in parameters or ():
            if one.name is None:
                raise Rejected(AspectTag.A_SIGNATURE, one.span, "a parameter of a pointcut has a name")
        if parameters is None or variadic:
            raise Rejected(AspectTag.A_SIGNATURE, self.since(opened), "a pointcut names all of its parameters")
        self.expect("=")
        match = self.match()
        self.expect(";")
        return ast.PointcutItem(self.since(start), name, parameters, match)

    def _aspect(self) -> ast.AspectItem:
        """['aspect' name ':'] {option} ([place] element | sequence) ';'"""
        start, name = self.peek().span, None
        if self.accept("aspect"):
            name = self.name("the name of an aspect")
            self.expect(":")
        options = list[ast.AspectOption]()
        while (option := self._option()) is not None:
            options.append(option)
        body = self._sequence() if self.peek().text == "seq" else self._element()
        self.expect(";", "an aspect ends with ;")
        return ast.AspectItem(self.since(start), name, tuple(options), body)

    def _option(self) -> ast.AspectOption | None:
        """The option that comes next, which is taken; None if no option comes next."""
        token = self.peek()
        if token.text in _FLAGS:
            self.take()
            return ast.FlagOption(token.span, token.text)
        match token.text:
            case "unique":
                self.take()
                self.expect("(")
                names = self.names()
                self.expect(")")
                return ast.UniqueOption(self.since(token.span), names)
            case "instances":
                self.take()
                return ast.InstancesOption(self.since(token.span), self._number())
            case "var":
                return self._var()
        return None

    def _number(self) -> int:
        token = self.take()
        if not (token.kind is Lexeme.NUMBER and token.text.isdecimal() and len(token.text) < 20):
            raise Rejected(AspectTag.A_SYNTAX, token.span, "expected a number of instances")
        if not 0 < int(token.text) <= _MOST:
            raise Rejected(AspectTag.A_SYNTAX, token.span, f"there can be 1 to {_MOST} instances")
        return int(token.text)

    def _var(self) -> ast.VarOption:
        """'var' '(' declaration ['=' expression] {',' declaration ['=' expression]} ')'"""
        start = self.take().span
        self.expect("(")
        found = [self._word()]
        while self.accept(","):
            found.append(self._word())
        self.expect(")")
        return ast.VarOption(self.since(start), tuple(found))

    def _word(self) -> ast.Declared:
        given = self.scanner.c_before(",)", "a declaration")
        before, equals, behind = given.text.partition("=")
        written = before.rstrip()
        if not written:
            raise Rejected(AspectTag.A_C, given.span, "this declares no name", "var(int name = 0)")
        start = given.span.start
        made = declared(self.source, ast.CText(Span(start, start + len(written)), written), AspectTag.A_C)
        if made.name is None or (equals and not behind.strip()):
            raise Rejected(AspectTag.A_C, given.span, "this declares no name, or no value", "var(int name = 0)")
        if not equals:
            return made
        at = given.span.end - len(behind.lstrip())
        return ast.Declared(given.span, made.type, made.name, ast.CText(Span(at, given.span.end), behind.strip()))

    def _sequence(self) -> ast.SequenceItem:
        """'seq' '(' element {';' element} [';'] ')' ['until' [place] match {',' [place] match}] ['within' time]"""
        start = self.take().span
        self.expect("(")
        elements = [self._element()]
        while self.accept(";") and self.peek().text != ")":
            elements.append(self._element())
        self.expect(")", "elements of a sequence end with ;")
        until = list[ast.UntilItem]()
        if self.accept("until"):
            until.append(self._until())
            while self.accept(","):
                until.append(self._until())
        within = self._within() if self.peek().text == "within" else None
        return ast.SequenceItem(self.since(start), tuple(elements), tuple(until), within)

    def _until(self) -> ast.UntilItem:
        start, place = self.peek().span, self._place()
        match = self.match()
        return ast.UntilItem(self.since(start), place, match)

    def _within(self) -> ast.WithinItem:
        start = self.take().span
        token = self.take()
        found = duration.nanoseconds(token.text) if token.kind is Lexeme.NUMBER else None
        if not found or found >= 1 << 63:
            raise Rejected(AspectTag.A_SYNTAX, token.span, "expected a time above zero", "within 500ms")
        return ast.WithinItem(self.since(start), found)

    def _element(self) -> ast.ElementItem:
        """[place] match ['then' ['before' | 'inplace' | 'after'] (block | call)] ['*']"""
        start, place = self.peek().span, self._place()
        match = self.match()
        advice = self._advice() if self.peek().text == "then" else None
        star = self.accept("*")
        return ast.ElementItem(self.since(start), place, match, advice, star.span if star else None)

    def _place(self) -> ast.PlaceItem | None:
        """name {',' name} ':' in front of an element; None if the name that comes next does not begin such a list."""
        token = self.peek()
        if token.kind is not Lexeme.NAME:
            return None
        position, last = self.scanner.position, self.last
        self.take()
        if self.peek().text not in (",", ":", "@"):
            self.scanner.position, self.last = position, last
            return None
        self.scanner.position, self.last = position, last
        names = [self.name("a group")]
        self._expect_here()
        while self.accept(","):
            names.append(self.name("a group"))
            self._expect_here()
        self.expect(":", "a group in front of an element: A: call(...)")
        return ast.PlaceItem(self.since(token.span), tuple(names))

    def _expect_here(self) -> None:
        if self.peek().text == "@":
            why = "groups of other machines cannot be used yet"
            raise Rejected(AspectTag.A_ELSEWHERE, self.peek().span, why, "weave the file on each of the machines")

    def _advice(self) -> ast.AdviceItem:
        """'then' ['before' | 'inplace' | 'after'] (C-block | C-call)"""
        start = self.take().span
        word = self.accept("before", "inplace", "after")
        when = word.text if word else "before"
        if self.peek().text == "{":
            body = self.scanner.c_bracketed("advice")
            return ast.AdviceItem(self.since(start), when, body, True)
        name = self.name("a block of C, or a call")
        if self.peek().text != "(":
            raise self.unexpected("expected ( after the name of the function that is called")
        given = self.scanner.c_bracketed("arguments")
        span = name.span.to(given.span)
        return ast.AdviceItem(self.since(start), when, ast.CText(span, self.source.text[span.start : span.end]), False)
