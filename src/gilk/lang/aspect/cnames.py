# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names in fragments of C: what can be found out about them without knowing C's grammar."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gilk.lang.aspect.scanner import AspectScanner
from gilk.lang.syntax.source import Rejected, Source

_PIECE = re.compile(
    r"""
    (?P<skip>"(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | /\*.*?\*/ | //[^\n]* | \.?\d[\w.]*)
  | (?P<member>(?:->|\.)\s*[A-Za-z_]\w*)
  | (?P<name>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_TEXT = """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    """
_WORDS = frozenset(_TEXT.split())
_EQUAL = re.compile(r"(?<![=!<>])==(?!=)")
_STATEMENT = re.compile(r"[;{}]|\bfor\s*\(")
_DECLARATION = re.compile(
    r"""
    \s*(?P<type>[A-Za-z_]\w*(?:\s+[A-Za-z_]\w*)*?) (?:\s+|\s*\*(?:[\s*]|const\b)*)
    (?P<name>[A-Za-z_]\w*)\s*(?:=(?!=)|[,\[]|$)
    """,
    re.ASCII | re.VERBOSE,
)
_DECLARED = re.compile(r"[\s*]*(\w+)")
_BRACKETS = re.compile(r"[(\[][^()\[\]]*[)\]]")
_NO_TYPES = ("return", "case", "goto", "else", "sizeof", "do")
_CONJUNCTION = re.compile(
    r"""(?P<skip>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<open>[(\[{])|(?P<close>[)\]}])|&&"""
)


#: Functions that advice and conditions can call; a bound name may be that of one of them.
_GIVEN = frozenset(
    ["pid", "tid", "now", "proceed", "deny", "report", "add", "join", "leave", "aspect_on", "aspect_off"]
)


def _values(text: str) -> Iterator[re.Match[str]]:
    """The names in ``text`` that are not calls of functions in _GIVEN."""
    for one in _found(text):
        if one["name"] not in _GIVEN or not re.match(r"\s*\(", text[one.end() : one.end() + 9]):
            yield one


def _found(text: str) -> Iterator[re.Match[str]]:
    return (one for one in _PIECE.finditer(text) if one["name"] and one["name"] not in _WORDS)


def names(text: str) -> tuple[str, ...]:
    """The identifiers in order of appearance, each once, without members of structs and words of C."""
    return tuple(dict.fromkeys(one["name"] for one in _values(text)))


def place(text: str, name: str) -> int | None:
    """The offset of the first appearance of ``name``, None if there is none."""
    return next((one.start() for one in _values(text) if one["name"] == name), None)


def renamed(text: str, to: Mapping[str, str]) -> str:
    """``text`` with its names replaced as ``to`` says."""
    parts, last = list[str](), 0
    for one in _values(text):
        parts += [text[last : one.start()], to.get(one["name"], one["name"])]
        last = one.end()
    return "".join((*parts, text[last:]))


def declares(text: str, name: str) -> bool:
    """Whether the fragment seems to declare a variable ``name`` of its own."""
    bare = _PIECE.sub(lambda one: " 0 " if one["skip"] else one[0], text)
    return any(name in _declared(statement) for statement in _STATEMENT.split(bare))


def _declared(statement: str) -> Iterator[str]:
    """The names that a statement declares, if it is a declaration: one or more words, and perhaps stars, stand before
    the first name.
    """
    found = _DECLARATION.match(statement)
    if found is None or found["type"].split()[0] in _NO_TYPES:
        return
    while (outer := _BRACKETS.sub(" ", statement)) != statement:
        statement = outer
    for part in statement[found.start("name") :].split(","):
        named = _DECLARED.match(part)
        if named is not None:
            yield named[1]


def calls(text: str, function: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(offset, arguments as written) of each call of ``function``, including calls within calls."""
    for one in _found(text):
        if one["name"] != function or not text[one.end() :].lstrip().startswith("("):
            continue
        opened = text.index("(", one.end()) + 1
        yield one.start(), _arguments(text, opened)


def _arguments(text: str, start: int) -> tuple[str, ...]:
    scanner = AspectScanner(Source("C", text))
    scanner.position, found = start, list[str]()
    try:
        while True:
            scanner.skip()
            if not found and scanner.text.startswith(")", scanner.position):
                return ()
            found.append(scanner.c_before(",)", "an argument").text)
            if scanner.text[scanner.position] == ")":
                return tuple(found)
            scanner.position += 1
    except Rejected:
        return tuple(found)


def equalities(condition: str) -> Iterator[tuple[str, str]]:
    """The two sides of each ``a == b`` that must hold if ``condition`` holds."""
    for part in _conjuncts(condition):
        sides = _EQUAL.split(part)
        plain = not re.search(r"\|\||[?,]|[^=!<>]=[^=]", re.sub(r"\([^()]*\)", "", part))
        if len(sides) == 2 and plain and _balanced(sides[0]) and _balanced(sides[1]):
            yield sides[0].strip(), sides[1].strip()


def _conjuncts(condition: str) -> Iterator[str]:
    """The operands of ``&&``, those of operands in brackets too."""
    whole = _unbracketed(condition)
    parts = list(_operands(whole))
    if len(parts) == 1:
        yield whole
    else:
        for part in parts:
            yield from _conjuncts(part)


def _operands(condition: str) -> Iterator[str]:
    """The parts between each ``&&`` that is in no brackets."""
    depth, last = 0, 0
    for one in _CONJUNCTION.finditer(condition):
        depth += bool(one["open"]) - bool(one["close"])
        if one[0] == "&&" and depth == 0:
            yield condition[last : one.start()].strip()
            last = one.end()
    yield condition[last:].strip()


def _unbracketed(text: str) -> str:
    """The text without brackets around all of it."""
    text = text.strip()
    while text.startswith("(") and _closing(text) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _closing(text: str) -> int:
    """The place of the bracket that closes the one at the beginning; -1 if none does."""
    depth = 0
    for one in _CONJUNCTION.finditer(text):
        depth += bool(one["open"]) - bool(one["close"])
        if one["close"] and not depth:
            return one.start()
    return -1


def _balanced(text: str) -> bool:
    return not sum(bool(one["open"]) - bool(one["close"]) for one in _CONJUNCTION.finditer(text))
