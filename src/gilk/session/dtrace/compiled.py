# SPDX-License-Identifier: LGPL-2.1-or-later
"""From the text of D programs to what is known of them before they are enabled; and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import PurePath

from gilk.lang.d import items, stability, tree
from gilk.lang.d.macros import Macros
from gilk.lang.d.meaning.check import Checker
from gilk.lang.d.meaning.scope import Frames
from gilk.lang.d.meaning.tags import Tag as MeaningTag
from gilk.lang.d.meaning.world import World
from gilk.lang.d.options import BadOption, Options
from gilk.lang.d.parser import parse
from gilk.lang.d.tags import Tag
from gilk.lang.syntax.source import Diagnostic, Rejected, Source, Span
from gilk.lang.types import Type
from gilk.values import dataclass


@dataclass(frozen=True)
class Text:
    """A program: ``kind`` is ``description`` of -n and the like, ``script`` of -s, or ``library``."""

    kind: str
    source: Source

    @property
    def said(self) -> str:
        """What messages call it: of a description what stands before its predicate and its actions."""
        name = self.source.name
        if self.kind == "script":
            return name
        return name[: min((at for mark in "{/;" if (at := name.find(mark)) >= 0), default=len(name))]


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
    """``origins``: for each clause the text that it is of. ``argument_types``: of args[] at the probes described."""

    program: tree.Program
    origins: tuple[Text, ...]
    argument_types: Callable[[str], tuple[Type, ...]]

    def clauses(self, text: Text) -> list[tree.Clause]:
        """Those of one text."""
        return [clause for clause, origin in zip(self.program.clauses, self.origins, strict=True) if origin is text]


def compile_programs(
    texts: Sequence[Text],
    macros: Macros,
    options: Options,
    world: World | None = None,
    libraries: Sequence[Source] = (),
) -> Compiled:
    """Pragmas set ``options``, all of them before anything is laid out. Raises DoesNotCompile."""
    known = _libraries(libraries, macros)
    programs = _read(texts, macros, {name for _, library in known for name in _typedefs(library)})
    for text, program in programs:
        with _placed(text, program):
            for item in program.items:
                if isinstance(item, items.Pragma) and item.kind == "option":
                    _set(options, item)
    frames = Frames(options.number("ustackframes"), options.number("maxframes"))
    least, by_processor = stability.read(options.text("amin")), options.flag("aggpercpu")
    checker = Checker(options.number("strsize"), world, frames, least, by_processor)
    for text, library in known:
        with _placed(text, library):
            for item in library.items:
                checker.item(item, library=True)
            checker.finish(PurePath(text.source.name).name)
    origins: list[Text] = []
    for text, program in programs:
        with _placed(text, program):
            for item in program.items:
                checker.item(item)
            checker.finish()
            _check_not_empty(text, program, options)
        origins += [text] * (checker.clauses - len(origins))
    return Compiled(checker.program(), tuple(origins), checker.argument_types)


def _libraries(sources: Sequence[Source], macros: Macros) -> list[tuple[Text, items.Program]]:
    """Each knows the types of those before it."""
    found, types = [], set[str]()
    for source in sources:
        text = Text("library", source)
        found.append((text, _parsed(text, replace(macros, argref=True), types).program))
        types |= _typedefs(found[-1][1])
    return found


def _typedefs(program: items.Program) -> set[str]:
    """Names of types that it declares."""
    declared = (item for item in program.items if isinstance(item, items.Declaration) and item.storage == "typedef")
    return {each.name for item in declared for each in item.declarators if each.name is not None}


@dataclass(frozen=True)
class _Parsed:
    program: items.Program
    used: frozenset[int]


def _parsed(text: Text, macros: Macros, types: set[str]) -> _Parsed:
    found = parse(text.source, macros, types)
    if found.program is None:
        diagnostic = found.diagnostics[0]
        raise DoesNotCompile(Wrong(text, text.source.name, text.source.line(diagnostic.span), diagnostic))
    return _Parsed(found.program, found.used)


def _read(texts: Sequence[Text], macros: Macros, types: set[str]) -> list[tuple[Text, items.Program]]:
    """An argument that any of the programs has use for is used."""
    found, used = [], set[int]()
    for text in texts:
        parsed = _parsed(text, replace(macros, argref=True), types)
        found.append((text, parsed.program))
        used |= parsed.used
    unused = [number for number in range(1, len(macros.arguments)) if number not in used]
    if unused and texts and not macros.argref:
        what = f"extraneous argument '{macros.arguments[unused[0]]}' (${unused[0]} is not referenced)"
        raise DoesNotCompile(Wrong(texts[0], texts[0].source.name, 0, Diagnostic(Tag.D_MACRO_UNUSED, Span(0, 0), what)))
    return found


def _check_not_empty(text: Text, program: items.Program, options: Options) -> None:
    if options.flag("empty") or any(not isinstance(item, items.Pragma) for item in program.items):
        return
    end = len(text.source.text)
    raise Rejected(MeaningTag.D_EMPTY, Span(end, end), "empty D program translation unit")


@contextmanager
def _placed(text: Text, program: items.Program) -> Iterator[None]:
    """What is wrong in there is told with its file and line."""
    try:
        yield
    except Rejected as rejected:
        file, line = program.place(rejected.diagnostic.span)
        raise DoesNotCompile(Wrong(text, file, line, rejected.diagnostic)) from None


def _set(options: Options, pragma: items.Pragma) -> None:
    name, value = (*pragma.words, None)[:2]
    try:
        options.set(str(name), value)
    except BadOption as bad:
        what = f"failed to set option '{name}'" + (f" to '{value}'" if value else "")
        raise Rejected("D_PRAGMA_OPTSET", pragma.span, f"{what}: {bad}") from None
