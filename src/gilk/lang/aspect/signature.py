# SPDX-License-Identifier: LGPL-2.1-or-later
"""The reader of signatures in join points: the result, the image and the name of a function or variable, and
parameters, as C declares them.

A docstring that is a grammar rule names the production that the method parses.
"""

from __future__ import annotations

import re

from gilk.lang.aspect.ast import CallPattern, CodePattern, CText, Declared, GlobalPattern, Ident
from gilk.lang.aspect.declaration import declared, type_of
from gilk.lang.aspect.scanner import AspectScanner
from gilk.lang.aspect.tags import AspectTag
from gilk.lang.syntax.source import Rejected, Source, Span

_IMAGE = r"(?:(?P<image>[\w.+*?\[\]-]+)\s*:(?!:)\s*)?"
_FUNCTION = re.compile(rf"(?<![\w.:]){_IMAGE}(?P<name>[\w*?\[\]$.]+)\s*\Z", re.ASCII)
_ITS_IMAGE = re.compile(r"(?<![\w.:])(?P<image>[\w.+*?\[\]-]+)\s*:\s*\Z", re.ASCII)
_VARIABLE = re.compile(rf"(?<![\w.:]){_IMAGE}(?P<name>[A-Za-z_]\w*(?:\s*\.\s*[A-Za-z_]\w*)*)\s*\Z", re.ASCII)
_PATTERN = re.compile(rf"{_IMAGE}(?P<name>[\w*?\[\]$.+-]+)", re.ASCII)
_GLOB = re.compile(r"[*?\[]")
_HEAD = re.compile(r"[^()`;{}\"']*")
_LONGEST = 1000  # characters before a bracket
_HINT = "call(int image:function(char *name, ...)); (..) is any parameters"


def call_pattern(scanner: AspectScanner, start: Span) -> CallPattern:
    """Read the inside of ``call(...)``, without its brackets. Raises Rejected."""
    scanner.skip()
    head = _head(scanner)
    if scanner.text.startswith("`", scanner.position):
        result, function = _quoted(scanner, head)
    else:
        result, function = _split(head, _FUNCTION)
    result, noreturn = _without(result, "_Noreturn")
    type_ = type_of(scanner.source, _there(_without(result, "extern")[0], head), AspectTag.A_SIGNATURE)
    parameters, variadic = _parameters(scanner)
    span = Span(start.start, scanner.position)
    return CallPattern(span, type_, function, parameters, variadic, noreturn)


def global_pattern(scanner: AspectScanner, start: Span, write: bool) -> GlobalPattern:
    """Read the inside of ``readGlobal(...)`` or ``writeGlobal(...)``, without its brackets. Raises Rejected."""
    scanner.skip()
    head = _head(scanner)
    found = _VARIABLE.search(head.text)
    if found is None:
        raise _no_signature(head.span, "the name of a variable is missing")
    at = found.start() + (_of_type(head.text[: found.start()], found["image"]) if found["image"] else 0)
    image = head.text[at : found.end("image")] if found["image"] else None
    type_ = type_of(scanner.source, _there(_slice(head, 0, at), head), AspectTag.A_SIGNATURE)
    path = [
        Ident(_span(head, found.start("name") + one.start(), found.start("name") + one.end()), one[0])
        for one in re.finditer(r"\w+", found["name"])
    ]
    return GlobalPattern(Span(start.start, scanner.position), write, type_, image, path[0], tuple(path[1:]))


def code_pattern(scanner: AspectScanner) -> CodePattern:
    """Read a function or an image in ``from`` or ``in``. Raises Rejected."""
    scanner.skip()
    start = scanner.position
    image = re.compile(r"(?P<image>[\w.+*?\[\]-]+)\s*:(?!:)\s*(?=`)", re.ASCII).match(scanner.text, start)
    if image or scanner.text.startswith("`", start):
        scanner.position = image.end() if image else start
        name = _backquoted(scanner)
        return CodePattern(Span(start, scanner.position), image["image"] if image else None, name, True, False)
    found = _PATTERN.match(scanner.text, start)
    if found is None:
        here = Span(start, min(start + 1, len(scanner.text)))
        raise Rejected(AspectTag.A_SYNTAX, here, "expected a function or an image")
    scanner.position = found.end()
    return _code(Span(*found.span()), found["image"], found["name"])


def _code(span: Span, image: str | None, name: str) -> CodePattern:
    return CodePattern(span, image, name, False, bool(_GLOB.search(name) or (image and _GLOB.search(image))))


def _head(scanner: AspectScanner) -> CText:
    """Take the text before the next bracket or backquote."""
    found = _HEAD.match(scanner.text, scanner.position)
    assert found is not None
    span = Span(*found.span())
    if found.end() - found.start() > _LONGEST:
        raise _no_signature(Span(span.start, span.start + 1), "no name of a function follows")
    scanner.position = found.end()
    return CText(span, found[0])


def _split(head: CText, pattern: re.Pattern[str]) -> tuple[CText, CodePattern]:
    """The type before the function, and the function. A star before a name without an image belongs to the type."""
    found = pattern.search(head.text)
    if found is None:
        raise _no_signature(head.span, "the name of a function is missing")
    at = found.start() + _of_type(head.text[: found.start()], found["image"] or found["name"])
    name = found["name"] if found["image"] else head.text[at : found.end("name")]
    if not name or name[0].isdigit():
        raise _no_signature(head.span, "the name of a function is missing")
    image = head.text[at : found.end("image")] if found["image"] else None
    return _slice(head, 0, at), _code(_span(head, at, found.end("name")), image, name)


def _of_type(before: str, name: str) -> int:
    """The number of characters of a seeming glob that belong to the type: the leading stars, or, if nothing stands
    before the name, all up to the last star.
    """
    if before.strip():
        return len(name) - len(name.lstrip("*"))
    return name.rfind("*") + 1


def _quoted(scanner: AspectScanner, head: CText) -> tuple[CText, CodePattern]:
    start = scanner.position
    name = _backquoted(scanner)
    found = _ITS_IMAGE.search(head.text)
    if found is None:
        return head, CodePattern(Span(start, scanner.position), None, name, True)
    at = found.start() + _of_type(head.text[: found.start()], found["image"])
    image = head.text[at : found.end("image")]
    return _slice(head, 0, at), CodePattern(Span(start, scanner.position), image, name, True)


def _backquoted(scanner: AspectScanner) -> str:
    start = scanner.position
    end = scanner.text.find("`", start + 1)
    if end < 0 or "\n" in scanner.text[start:end] or not scanner.text[start + 1 : end].strip():
        here = Span(start, min(start + 1, len(scanner.text)))
        raise _no_signature(here, "a name between backquotes does not end, or is empty")
    scanner.position = end + 1
    return scanner.text[start + 1 : end].strip()


def _parameters(scanner: AspectScanner) -> tuple[tuple[Declared, ...] | None, bool]:
    """'(' ('..' | [declaration {',' declaration}] [',' '...']) ')'"""
    scanner.skip()
    if not scanner.text.startswith("(", scanner.position):
        here = Span(scanner.position, min(scanner.position + 1, len(scanner.text)))
        raise _no_signature(here, "parameters in brackets are missing")
    opened = scanner.position
    scanner.position += 1
    given = list[CText]()
    scanner.skip()
    while not scanner.text.startswith(")", scanner.position):
        given.append(scanner.c_before(",)", "a parameter"))
        if scanner.text.startswith(",", scanner.position):
            scanner.position += 1
            scanner.skip()
            if scanner.text.startswith(")", scanner.position):
                raise _no_signature(Span(scanner.position - 1, scanner.position), "a parameter is missing")
    scanner.position += 1
    return declarations(scanner.source, given, Span(opened, scanner.position))


def declarations(source: Source, given: list[CText], span: Span) -> tuple[tuple[Declared, ...] | None, bool]:
    """The parameters, or None for ``(..)``, and whether others may follow. Raises Rejected."""
    if [one.text for one in given] == [".."]:
        return None, False
    variadic = bool(given) and given[-1].text == "..."
    found = tuple(declared(source, one, AspectTag.A_SIGNATURE) for one in given[: len(given) - variadic])
    if variadic and not found:
        raise _no_signature(span, "a parameter is missing before ...")
    if len(found) == 1 and found[0].name is None and given[0].text == "void":
        return (), variadic
    return found, variadic


def _without(given: CText, word: str) -> tuple[CText, bool]:
    """``given`` without the word ``word`` at its beginning, and whether it was there."""
    found = re.match(rf"\s*{word}\b", given.text)
    return (given, False) if found is None else (_slice(given, found.end(), len(given.text)), True)


def _there(given: CText, head: CText) -> CText:
    text = given.text.strip()
    if not text:
        raise _no_signature(head.span, "the type before the name is missing")
    at = given.span.start + given.text.index(text)
    return CText(Span(at, at + len(text)), text)


def _slice(given: CText, start: int, end: int) -> CText:
    return CText(_span(given, start, end), given.text[start:end])


def _span(given: CText, start: int, end: int) -> Span:
    return Span(given.span.start + start, given.span.start + end)


def _no_signature(span: Span, why: str) -> Rejected:
    return Rejected(AspectTag.A_SIGNATURE, span, why, _HINT)
