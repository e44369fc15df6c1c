# SPDX-License-Identifier: LGPL-2.1-or-later
"""From the text of D programs to what is known of them before they are enabled; and what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gilk.lang.d import tree
from gilk.lang.d.macros import Macros
from gilk.lang.d.meaning.check import Checker
from gilk.lang.d.options import BadOption, Options
from gilk.lang.d.parser import parse
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


def compile_programs(texts: Sequence[Text], macros: Macros, options: Options) -> Compiled:
    """Pragmas set ``options``. Raises DoesNotCompile."""
    read = [(text, parse(text.source, macros)) for text in texts]
    for text, parsed in read:
        if parsed.program is None:
            raise DoesNotCompile(
                Wrong(text, text.source.name, text.source.line(parsed.diagnostics[0].span), parsed.diagnostics[0])
            )
    checker: Checker | None = None
    origins: list[Text] = []
    for text, parsed in read:
        assert parsed.program is not None
        for item in parsed.program.items:
            if checker is None and not _is_option(item):
                checker = Checker(options.number("strsize"))
            try:
                _item(checker, item, options)
            except Rejected as rejected:
                file, line = parsed.program.place(rejected.diagnostic.span)
                raise DoesNotCompile(Wrong(text, file, line, rejected.diagnostic)) from None
            if checker is not None:
                origins += [text] * (checker.clauses - len(origins))
    used = {number for _, parsed in read for number in parsed.used}
    for text, parsed in read:
        for diagnostic in parsed.diagnostics:
            if len(read) == 1 or not used:
                raise DoesNotCompile(Wrong(text, text.source.name, 0, diagnostic))
    return Compiled((checker or Checker(options.number("strsize"))).program(), tuple(origins))


def _is_option(item: object) -> bool:
    return getattr(item, "kind", None) == "option"


def _item(checker: Checker | None, item: object, options: Options) -> None:
    """Options that come first have a say in how the rest is laid out."""
    if _is_option(item):
        words: tuple[str, ...] = item.words  # type: ignore[attr-defined]
        name, value = words[0], words[1] if len(words) > 1 else None
        try:
            options.set(name, value)
        except BadOption as bad:
            span: Span = item.span  # type: ignore[attr-defined]
            what = f"failed to set option '{name}'" + (f" to '{value}'" if value else "")
            raise Rejected("D_PRAGMA_OPTSET", span, f"{what}: {bad}") from None
        return
    assert checker is not None
    checker.item(item)  # type: ignore[arg-type]
