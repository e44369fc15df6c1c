# SPDX-License-Identifier: LGPL-2.1-or-later
"""The values between the passes that come before the checks of clauses, and the errors of programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath

from gilk.lang.d import items, tree
from gilk.lang.syntax.source import Diagnostic, Rejected, Source
from gilk.values import dataclass


@dataclass(frozen=True)
class ProgramText:
    """The text of a program. ``kind``: ``description`` for -n and the like, ``script`` for -s, or ``library``.

    ``refused``: the reason why a description does not suit its option, such as ``-P syscall:::``; otherwise "".
    """

    kind: str
    source: Source
    refused: str = ""

    @property
    def said(self) -> str:
        """The name in messages: that of a script, or the part of a description before its predicate and its actions."""
        name = self.source.name
        if self.kind == "script":
            return name
        return name[: min((at for mark in "{/;" if (at := name.find(mark)) >= 0), default=len(name))]

    @property
    def is_library(self) -> bool:
        return self.kind == "library"


@dataclass(frozen=True)
class Wrong:
    """An error of a program. ``line`` is 0 if it is about no line. ``file``: the name of the file in the message."""

    text: ProgramText
    file: str
    line: int
    diagnostic: Diagnostic


class DoesNotCompile(Exception):
    """A program has an error. ``begun``: if that is in a clause, the program up to that clause, which does nothing in
    it, and the text of each clause; otherwise None."""

    def __init__(self, wrong: Wrong) -> None:
        super().__init__(wrong.diagnostic.message)
        self.wrong = wrong
        self.begun: tuple[tree.Program, tuple[ProgramText, ...]] | None = None


@dataclass(frozen=True)
class Unread:
    """The texts of a compilation. ``libraries`` come after those on which they depend; ``texts`` are in the order of
    the command line.
    """

    libraries: tuple[ProgramText, ...]
    texts: tuple[ProgramText, ...]


@dataclass(frozen=True)
class ParsedText:
    """A parsed text. ``used``: the numbers of the macro arguments that it uses."""

    text: ProgramText
    program: items.ProgramSyntax
    used: frozenset[int] = frozenset()

    @property
    def library(self) -> str:
        """The name by which other libraries depend on this one; "" for a program."""
        return PurePath(self.text.source.name).name if self.text.is_library else ""

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Turn Rejected into DoesNotCompile, with the file and the line."""
        try:
            yield
        except Rejected as rejected:
            file, line = self.program.place(rejected.diagnostic.span)
            raise DoesNotCompile(Wrong(self.text, file, line, rejected.diagnostic)) from None


@dataclass(frozen=True)
class Units:
    """All parsed texts of one compilation, in the order of ``Unread``."""

    libraries: tuple[ParsedText, ...]
    programs: tuple[ParsedText, ...]
