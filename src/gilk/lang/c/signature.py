# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C signature of a function, as far as advice on its calls needs it: the result, and parameters with names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gilk.errors import UsageError
from gilk.values import dataclass

_FUNCTION = re.compile(r"\s*(?P<result>[^()]*?[\s*])(?P<name>[A-Za-z_]\w*)\s*\((?P<inside>.*)\)\s*;?\s*", re.DOTALL)
_POINTER = re.compile(r"\(\s*\*[\s*]*(?:const\s+)?([A-Za-z_]\w*)")  # in a pointer to a function or to an array
_LAST = re.compile(r"(?<=[\s*])([A-Za-z_]\w*)\s*((\[[^\]]*\])\s*)*$")
_WORDS = frozenset(("int", "char", "short", "long", "float", "double", "unsigned", "signed", "const", "volatile"))
_HINT = "for example int open(const char *path, int flags, ...)"


@dataclass(frozen=True, slots=True)
class CSignature:
    """A signature. ``parameters`` are declarations in order, each with a name; ``variadic``: others may follow them."""

    result: str
    name: str
    parameters: tuple[str, ...]
    variadic: bool = False

    @property
    def declared(self) -> str:
        """The text of the parameters between the brackets, with ``...`` if the function is variadic."""
        return ", ".join((*self.parameters, *(("...",) if self.variadic else ()))) or "void"

    @property
    def fixed(self) -> str:
        """The text of the parameters between the brackets, without ``...``."""
        return ", ".join(self.parameters) or "void"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(_name, self.parameters))

    @property
    def is_void(self) -> bool:
        return self.result == "void"

    @property
    def is_long_double(self) -> bool:
        """Whether the result is in a register of the x87, which advice does not preserve."""
        words = self.result.split()
        return "double" in words and "long" in words and "*" not in self.result


def parse(text: str) -> CSignature:
    """The signature of a declaration. Raises UsageError `bad-signature`."""
    found = _FUNCTION.fullmatch(text)
    if found is None:
        raise UsageError("bad-signature", f"{text!r} is not the declaration of a function", _HINT)
    pieces = [piece.strip() for piece in _pieces(found["inside"])]
    variadic = pieces[-1] == "..."
    parameters = tuple(pieces[:-1] if variadic else [] if pieces in ([""], ["void"]) else pieces)
    for each in parameters:
        _name(each)
    return CSignature(" ".join(found["result"].split()), found["name"], parameters, variadic)


def _pieces(inside: str) -> Iterator[str]:
    """The parts between commas that are outside of brackets."""
    depth = begin = 0
    for at, letter in enumerate(inside):
        depth += letter in "([{"
        depth -= letter in ")]}"
        if letter == "," and not depth:
            yield inside[begin:at]
            begin = at + 1
    yield inside[begin:]


def _name(parameter: str) -> str:
    found = _POINTER.search(parameter) or _LAST.search(parameter)
    if found is None or found[1] in _WORDS:
        raise UsageError("bad-signature", f"the parameter {parameter!r} has no name", _HINT)
    return found[1]
