# SPDX-License-Identifier: LGPL-2.1-or-later
"""Subroutines about strings: code that has the driver's helpers make them, in strsize bytes of the frame each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from gilk.lang import ir
from gilk.lang.to_kernel.code import Slot
from gilk.lang.to_kernel.printing import Printing
from gilk.lang.types import INT64

Emit = Callable[[Printing, ir.Expression], None]
#: Fill in so many bytes of the frame from a place on with a string.
Text = Callable[[Printing, ir.Expression, int, int, Emit], None]
_PATHS = ("basename", "dirname", "cleanpath")
_CASES = ("tolower", "toupper")
_FINDS = ("strchr", "strrchr")
_LONGEST = 0x7FFFFFFF  # the length that substr() is not given
#: Subroutines whose results are strings; the last two may find none.
MADE = frozenset(("strjoin", "substr", "lltostr", *_PATHS, *_CASES))
FOUND = frozenset(_FINDS)
SWAPS = {"htons": 2, "ntohs": 2, "htonl": 4, "ntohl": 4, "htonll": 8, "ntohll": 8}


def make(p: Printing, node: ir.Call, to: int, value: Emit, text: Text) -> None:
    """strsize bytes from ``to`` on become the string; rax is 0 where the helper could not, or has found none."""
    numbers, strings = _parted(node)
    with _texts(p, strings, value, text) as at, _numbers(p, numbers, value) as given:
        match node.name:
            case "strjoin":
                p.code.call("strjoin", to, at[0], at[1], p.strsize)
            case "substr":
                length = given[1] if len(given) > 1 else _LONGEST
                p.code.call("substr", to, at[0], given[0], length, p.strsize)
            case "lltostr":
                p.code.call("lltostr", to, given[0], given[1] if len(given) > 1 else 10, p.strsize)
            case name if name in _PATHS:
                p.code.call("path_part", _PATHS.index(name), to, at[0], p.strsize)
            case name if name in _CASES:
                p.code.call("change_case", _CASES.index(name), to, at[0], p.strsize)
            case name:
                p.code.call("find", _FINDS.index(name), to, at[0], given[0], p.strsize)


def length(p: Printing, node: ir.Call, value: Emit, text: Text) -> None:
    """strlen(): rax is the number of characters."""
    with _texts(p, node.arguments[:1], value, text) as at:
        p.code.call("strlen", at[0], p.strsize)


def number(p: Printing, node: ir.Call, value: Emit, text: Text) -> None:
    """strtoll(): rax is the number."""
    numbers, strings = _parted(node)
    with p.frame.room() as to, _texts(p, strings, value, text) as at, _numbers(p, numbers, value) as given:
        p.code.call("strtoll", to, at[0], given[0] if given else 10, p.strsize)
        p.fails()
        p.code.recall(to)


def swap(p: Printing, node: ir.Call, value: Emit) -> None:
    """htons() and its like."""
    with _numbers(p, node.arguments, value) as given:
        p.code.call("swap", given[0], SWAPS[node.name])


def _parted(node: ir.Call) -> tuple[tuple[ir.Expression, ...], tuple[ir.Expression, ...]]:
    """The arguments that are numbers, and those that are strings, each in order."""
    count = {"strjoin": 2, "lltostr": 0}.get(node.name, 1)
    return node.arguments[count:], node.arguments[:count]


@contextmanager
def _texts(p: Printing, given: tuple[ir.Expression, ...], value: Emit, text: Text) -> Iterator[list[int]]:
    with ExitStack() as rooms:
        found = []
        for each in given:
            found.append(rooms.enter_context(p.frame.room(p.strsize)))
            text(p, each, found[-1], p.strsize, value)
        yield found


@contextmanager
def _numbers(p: Printing, given: tuple[ir.Expression, ...], value: Emit) -> Iterator[list[Slot]]:
    with ExitStack() as rooms:
        found = []
        for each in given:
            value(p, ir.Convert(INT64, each))
            found.append(Slot(rooms.enter_context(p.frame.room())))
            p.code.keep(found[-1].at)
        yield found
