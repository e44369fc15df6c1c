# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs as passes hand them on before their clauses are checked, and what is wrong with one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath

from gilk.lang.d import items
from gilk.lang.syntax.source import Diagnostic, Rejected, Source
from gilk.values import dataclass


@dataclass(frozen=True)
class ProgramText:
    """A program: ``kind`` is ``description`` of -n and the like, ``script`` of -s, or ``library``.

    ``refused``: why a description of the command line cannot be one of its option, as ``-P syscall:::``; else "".
    """

    kind: str
    source: Source
    refused: str = ""

    @property
    def said(self) -> str:
        """The name in messages: a script's, or what a description has before its predicate and its actions."""
        name = self.source.name
        if self.kind == "script":
            return name
        return name[: min((at for mark in "{/;" if (at := name.find(mark)) >= 0), default=len(name))]

    @property
    def is_library(self) -> bool:
        return self.kind == "library"


@dataclass(frozen=True)
class Wrong:
    """``line`` 0: of no line. ``file``: what the message calls it."""

    text: ProgramText
    file: str
    line: int
    diagnostic: Diagnostic


class DoesNotCompile(Exception):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__(wrong.diagnostic.message)
        self.wrong = wrong


@dataclass(frozen=True)
class Unread:
    """``libraries`` in the order of what they depend on, ``texts`` in that of the command line."""

    libraries: tuple[ProgramText, ...]
    texts: tuple[ProgramText, ...]


@dataclass(frozen=True)
class ParsedText:
    """A text that was parsed; ``used``: the numbers of the arguments that it has use for."""

    text: ProgramText
    program: items.ProgramSyntax
    used: frozenset[int] = frozenset()

    @property
    def library(self) -> str:
        """The name by which others depend on it; "" of a program."""
        return PurePath(self.text.source.name).name if self.text.is_library else ""

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Rejected becomes DoesNotCompile, with the file and line."""
        try:
            yield
        except Rejected as rejected:
            file, line = self.program.place(rejected.diagnostic.span)
            raise DoesNotCompile(Wrong(self.text, file, line, rejected.diagnostic)) from None


@dataclass(frozen=True)
class Units:
    """All of one compilation, in the order of ``Unread``."""

    libraries: tuple[ParsedText, ...]
    programs: tuple[ParsedText, ...]
