# SPDX-License-Identifier: LGPL-2.1-or-later
"""From the text of D programs to what is known of them before they are enabled; and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from gilk.lang.d import ast, tree
from gilk.lang.d.macros import Macros
from gilk.lang.d.meaning.check import Checker
from gilk.lang.d.meaning.scope import Frames
from gilk.lang.d.meaning.world import World
from gilk.lang.d.options import BadOption, Options
from gilk.lang.d.parser import parse
from gilk.lang.d.tags import Tag
from gilk.lang.syntax.source import Diagnostic, Rejected, Source, Span


@dataclass(frozen=True)
class Text:
    """A program: ``kind`` is ``description`` of -n and the like, ``script`` of -s."""

    kind: str
    source: Source


@dataclass(frozen=True)
class Wrong:
    """``line`` 0: of no line. ``file``: what the message calls it."""

    text: Text
    file: str
    line: int
    diagnostic: Diagnostic


class DoesNotCompile(Exception):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__(wrong.diagnostic.message)
        self.wrong = wrong


@dataclass(frozen=True)
class Compiled:
    """``origins``: for each clause the text that it is of."""

    program: tree.Program
    origins: tuple[Text, ...]


def compile_programs(texts: Sequence[Text], macros: Macros, options: Options, world: World | None = None) -> Compiled:
    """Pragmas set ``options``, all of them before anything is laid out. Raises DoesNotCompile."""
    programs = _read(texts, macros)
    for text, program in programs:
        with _placed(text, program):
            for item in program.items:
                if isinstance(item, ast.Pragma) and item.kind == "option":
                    _set(options, item)
    frames = Frames(options.number("ustackframes"), options.number("maxframes"))
    checker = Checker(options.number("strsize"), world, frames)
    origins: list[Text] = []
    for text, program in programs:
        with _placed(text, program):
            for item in program.items:
                checker.item(item)
        origins += [text] * (checker.clauses - len(origins))
    return Compiled(checker.program(), tuple(origins))


def _read(texts: Sequence[Text], macros: Macros) -> list[tuple[Text, ast.Program]]:
    """An argument that any of the programs has use for is used."""
    found, used = [], set[int]()
    for text in texts:
        parsed = parse(text.source, replace(macros, argref=True))
        if parsed.program is None:
            diagnostic = parsed.diagnostics[0]
            raise DoesNotCompile(Wrong(text, text.source.name, text.source.line(diagnostic.span), diagnostic))
        found.append((text, parsed.program))
        used |= parsed.used
    unused = [number for number in range(1, len(macros.arguments)) if number not in used]
    if unused and texts and not macros.argref:
        what = f"extraneous argument '{macros.arguments[unused[0]]}' (${unused[0]} is not referenced)"
        raise DoesNotCompile(Wrong(texts[0], texts[0].source.name, 0, Diagnostic(Tag.D_MACRO_UNUSED, Span(0, 0), what)))
    return found


@contextmanager
def _placed(text: Text, program: ast.Program) -> Iterator[None]:
    """What is wrong in there is told with its file and line."""
    try:
        yield
    except Rejected as rejected:
        file, line = program.place(rejected.diagnostic.span)
        raise DoesNotCompile(Wrong(text, file, line, rejected.diagnostic)) from None


def _set(options: Options, pragma: ast.Pragma) -> None:
    name, value = (*pragma.words, None)[:2]
    try:
        options.set(str(name), value)
    except BadOption as bad:
        what = f"failed to set option '{name}'" + (f" to '{value}'" if value else "")
        raise Rejected("D_PRAGMA_OPTSET", pragma.span, f"{what}: {bad}") from None
