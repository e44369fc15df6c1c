# SPDX-License-Identifier: LGPL-2.1-or-later
"""D's own words for a place of a program, and the order in which words are offered.

Names that a program declares, and names of a process, come from the engine (engines/dtrace/completing.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gilk.lang.d.lexer import TAGS, TYPE_WORDS
from gilk.lang.d.meaning.builtins import BUILTINS, CONSTANTS
from gilk.lang.d.meaning.functions import FUNCTIONS, Callable_, Role
from gilk.lang.d.meaning.functions import OF_THE_KERNEL as KERNELS
from gilk.lang.d.options import ROWS
from gilk.lang.d.writing.opening import Opening, OpeningKind
from gilk.lang.types import ALIASES, Special, text
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class OfferedWord:
    """A word to offer. ``kind`` and ``detail`` are shown to the user. ``goes_on``: something must follow the word."""

    text: str
    kind: str
    detail: str = ""
    goes_on: bool = False


_TAKES_AGGREGATIONS = frozenset(name for name, one in FUNCTIONS.items() if "agg" in one.parameters) | {"printa"}
_CALLABLE = frozenset(("action", "subroutine", "aggregating"))
_WITH_BRACKET = frozenset(("if", "sizeof", "stringof", "offsetof"))


def own_words(there: Opening) -> Iterator[OfferedWord]:
    """The words that D has at that place without any declaration."""
    match there.kind:
        case OpeningKind.PROBE if there.first and not there.fields:
            yield from (OfferedWord(word, "keyword", goes_on=True) for word in _TOP)
        case OpeningKind.STATEMENT:
            yield from _STATEMENTS
            yield from _scopes()
            yield from _functions(Role.ACTION, Role.DEED)
            yield from _values()
        case OpeningKind.EXPRESSION:
            yield from _values()
            yield from _scopes()
            yield from _functions(Role.SUBROUTINE)
            yield from (OfferedWord(one.name, "action", signature(one)) for one in _of_stacks())
            yield from (
                OfferedWord(word, "keyword", goes_on=True) for word in ("sizeof", "stringof", "xlate", "offsetof")
            )
            yield from (OfferedWord(name, "constant", str(value)) for name, value in CONSTANTS.items())
        case OpeningKind.AGGREGATING:
            yield from _functions(Role.AGGREGATING)
        case OpeningKind.MACRO:
            yield from (OfferedWord(f"${name}", "macro", what) for name, what in _MACROS.items())
        case OpeningKind.TYPE:
            yield from (OfferedWord(word, "type", goes_on=word in TAGS) for word in sorted(TYPE_WORDS | TAGS))
            yield from (OfferedWord(name, "type") for name in ALIASES)
        case OpeningKind.OPTION:
            yield from (OfferedWord(name, "option", f"{shape.name.lower()}, {value!r} without it")
                        for name, (shape, value) in ROWS.items())  # fmt: skip


def is_fit(there: Opening, word: OfferedWord) -> bool:
    """Whether the word may stand there; before a bracket only a word that can be called may."""
    return not there.called or word.kind in _CALLABLE or word.text in _WITH_BRACKET


def takes_aggregations(there: Opening) -> bool:
    """Whether an aggregation may be named there."""
    return there.kind is OpeningKind.STATEMENT or (
        there.kind is OpeningKind.EXPRESSION and there.word in _TAKES_AGGREGATIONS
    )


def signature(one: Callable_) -> str:
    """A function with its parameters, as the documentation writes it."""
    given = [f"[{name[:-1]}]" if name.endswith("?") else name.replace("rest", "...") for name in one.parameters]
    return f"{one.name}({', '.join(given)})"


def _functions(*roles: Role) -> Iterator[OfferedWord]:
    for one in FUNCTIONS.values():
        if one.role in roles and one.name not in KERNELS:
            kind = "subroutine" if one.role is Role.SUBROUTINE else "action"
            yield OfferedWord(one.name, "aggregating" if one.role is Role.AGGREGATING else kind, signature(one))


def _of_stacks() -> Iterator[Callable_]:
    """Actions that have a value, which can be a key."""
    found = (one for one in FUNCTIONS.values() if isinstance(one.type, Special))
    return (one for one in found if one.name not in KERNELS)


def _values() -> Iterator[OfferedWord]:
    yield OfferedWord("args", "variable", "arguments of the probe, with their types", goes_on=True)
    yield from (OfferedWord(name, "variable", text(type_)) for name, type_ in BUILTINS.items())


def _scopes() -> Iterator[OfferedWord]:
    yield OfferedWord("self", "keyword", "a variable of the thread", goes_on=True)
    yield OfferedWord("this", "keyword", "a variable of the clause", goes_on=True)


_STATEMENTS: Final = (OfferedWord("if", "keyword", goes_on=True),)
_TOP: Final = ("inline", "typedef", "translator", "provider", "struct", "union", "enum", "self", "this", "extern")
_MACROS: Final = {
    "target": "the process", "pid": "gilk's own number", "ppid": "its parent's", "uid": "its user's", "euid": "",
    "gid": "", "egid": "", "pgid": "", "sid": "", "projid": "", "taskid": "",
}  # fmt: skip


def chosen(words: Iterable[OfferedWord], prefix: str, most: int) -> tuple[list[OfferedWord], int]:
    """The words that begin with the prefix, then those that contain it, at most ``most``; and how many are left out."""
    known: dict[str, OfferedWord] = {}
    for word in words:
        known.setdefault(word.text, word)
    wanted = prefix.lower()
    ranked = ((_rank(word.text, prefix, wanted), word) for word in known.values())
    fit = [(rank, _ORDER.get(word.kind, 0), word.text.lower(), word.text) for rank, word in ranked if rank < _UNFIT]
    found = [known[name] for *_, name in sorted(fit)]
    return found[:most], max(0, len(found) - most)


#: The kinds that are wanted most come first.
_ORDER: Final = {"action": 1, "subroutine": 1, "keyword": 2, "inline": 3, "type": 4, "constant": 5}
_UNFIT: Final = 3


def _rank(word: str, prefix: str, wanted: str) -> int:
    if word.startswith(prefix):
        return 0
    lower = word.lower()
    return 1 if lower.startswith(wanted) else 2 if wanted in lower else _UNFIT
