# SPDX-License-Identifier: LGPL-2.1-or-later
"""Checks C that is being written: what the compiler says of it, each at its place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from gilk.errors import CompileError, UsageError
from gilk.toolchain.compilers import all_errors, columns_in_bytes
from gilk.toolchain.instrument import compile_instrument
from gilk.values import dataclass

_COMMENT: Final = re.compile(r"/\*.*?(?:\*/|\Z)|//[^\n]*", re.DOTALL)
_FUNCTION: Final = re.compile(r"^[ \t]*(?:static[ \t]+)?void[ \t\n]+(\w+)[ \t]*\([^;{]*\)\s*\{", re.MULTILINE)
_SAID: Final = re.compile(
    r"^(?P<file>[^\n]+?):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<words>.*)$", re.MULTILINE
)
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class CProblem:
    """An error: its place as characters [start, end) of the text, and as line and column from 1."""

    start: int
    end: int
    line: int
    column: int
    message: str


@dataclass(frozen=True, slots=True)
class WrittenC:
    """The functions that may be instruments, in the order of the text, and the problems, in the compiler's order."""

    functions: tuple[str, ...]
    problems: tuple[CProblem, ...]


def check_c(name: str, text: str) -> WrittenC:
    """Compile the C file ``name``, with the content ``text``, as `gilk run` does for each of its functions. Raises
    CompileError `no-compiler`.
    """
    found = functions_of(text)
    if not found:
        return WrittenC((), (no_function(),))
    problems: dict[CProblem, None] = {}
    for function, (start, end) in found.items():
        problems.update(dict.fromkeys(_problems(name, text, function, start, end)))
    return WrittenC(tuple(found), tuple(problems))


def functions_of(text: str) -> dict[str, tuple[int, int]]:
    """The functions that may be instruments, in the order of the text, each with the place of its name."""
    plain = _COMMENT.sub(lambda comment: re.sub(r"[^\n]", " ", comment[0]), text)
    return {match[1]: match.span(1) for match in _FUNCTION.finditer(plain)}


def no_function() -> CProblem:
    """The problem of a text without such a function."""
    return _problem("", 0, 0, "there is no function void NAME(unsigned int iid) { ... } in it")


def _problems(name: str, text: str, function: str, start: int, end: int) -> Iterator[CProblem]:
    """The problems of a function as an instrument; those of other files are at its name."""
    try:
        compile_instrument(Path(name), function, (*all_errors(), *columns_in_bytes()), text=text)
        return
    except UsageError as error:
        yield _problem(text, start, end, error.message)
        return
    except CompileError as error:
        if error.slug != "does-not-compile":
            raise
        said = error.message
    matches = list(_SAID.finditer(said))
    if not matches:
        yield _problem(text, start, end, said)
    for match in matches:
        if PurePosixPath(match["file"]).name == name:
            at = _place(text, int(match["line"]), int(match["column"]))
            word = _WORD.match(text, at)
            yield _problem(text, at, word.end() if word is not None else at + 1, match["words"])
        else:
            yield _problem(text, start, end, match["words"])


def _place(text: str, line: int, column: int) -> int:
    """The character at a line and a column, which count from 1; the column is in bytes."""
    lines = text.split("\n")
    before = lines[: line - 1]
    rest = lines[line - 1] if line <= len(lines) else ""
    return sum(map(len, before)) + len(before) + len(rest.encode()[: max(0, column - 1)].decode(errors="ignore"))


def _problem(text: str, start: int, end: int, message: str) -> CProblem:
    line = text.count("\n", 0, start)
    return CProblem(start, end, line + 1, start - (text.rfind("\n", 0, start) + 1) + 1, message)
