# SPDX-License-Identifier: LGPL-2.1-or-later
"""The printer of subroutines about strings: the driver's helpers make each string in strsize bytes of the frame.

A string that is searched for has room for twice as much behind it, for the helper's search table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from gilk.lang import ir
from gilk.lang.to_kernel.code import HEAD, LARGEST_FRAME, Slot
from gilk.lang.to_kernel.printing import Printing
from gilk.lang.to_kernel.refused import NotInKernel
from gilk.lang.types import INT64

Emit = Callable[[Printing, ir.Expression], None]
#: Prints code that fills in so many bytes of the frame from an offset on with a string.
Text = Callable[[Printing, ir.Expression, int, int, Emit], None]
_PATHS = ("basename", "dirname", "cleanpath")
_CASES = ("tolower", "toupper")
_FINDS = ("strchr", "strrchr")
_ADDRESSES = ("inet_ntoa", "inet_ntoa6", "inet_ntop", "link_ntop")
_ARGUMENTS = "argumentsof"
_FILES = ("cwd", "root", "d_path", "pathof")
_OF_PATH, _OF_CWD, _OF_ROOT = 0, 3, 4  # native/ilk/d/files.h
_INDEXES = ("index", "rindex")
_LONGEST = 0x7FFFFFFF  # the length of substr() if it is not given
#: Subroutines whose results are strings; those of FOUND may find none.
MADE = frozenset(("strjoin", "substr", "lltostr", "after", *_PATHS, *_CASES, *_ADDRESSES, *_FILES, _ARGUMENTS))
FOUND = frozenset(("strstr", "strtok", *_FINDS))
#: Subroutines whose results are positions in a string.
PLACES = frozenset(_INDEXES)
SWAPS = {"htons": 2, "ntohs": 2, "htonl": 4, "ntohl": 4, "htonll": 8, "ntohll": 8}


def make(p: Printing, node: ir.Call, to: int, value: Emit, text: Text) -> None:
    """Print code that makes the string in strsize bytes from ``to`` on; rax is 0 if the helper failed or found none."""
    if node.name == "strtok":
        _token(p, node, to, value, text)
        return
    numbers, strings = _parted(node)
    searches = node.name == "strstr"
    with _texts(p, strings, value, text, searches) as at, _numbers(p, numbers, value) as given:
        match node.name:
            case "strstr":
                p.code.call("strstr", to, at[0], at[1], p.strsize)
            case "after":
                p.code.call("after", to, at[0], given[0], p.strsize)
            case name if name in _ADDRESSES:
                address, kind = _address(node.name, given)
                p.code.call("address_text", _ADDRESSES.index(name), to, address, kind, p.strsize)
            case name if name in _FILES:
                kind, path = _file(node.name, given)
                p.code.call("path_text", kind, to, path, p.strsize)
            case name if name == _ARGUMENTS:
                p.code.call("arguments", to, given[0], p.strsize)
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


def _address(name: str, given: list[Slot]) -> tuple[Slot, int | Slot]:
    """The address, and its family or kind, or for inet_ntoa6() whether an IPv4 address is written like one of IPv6."""
    if name in ("inet_ntop", "link_ntop"):
        return given[1], given[0]
    return given[0], given[1] if len(given) > 1 else 0


def _file(name: str, given: list[Slot]) -> tuple[int | Slot, int | Slot]:
    """The kind of the path, and the address of the object with the path."""
    match name:
        case "cwd":
            return _OF_CWD, 0
        case "root":
            return _OF_ROOT, 0
        case "d_path":
            return _OF_PATH, given[0]
    return given[0], given[1]


def _token(p: Printing, node: ir.Call, to: int, value: Emit, text: Text) -> None:
    """Print strtok(). A NULL text stands for the rest of the text that was kept."""
    given, between, *rest = node.arguments
    kept = rest[0] if rest else None
    if not isinstance(kept, ir.Place):
        raise NotInKernel(f"a clause that keeps more than {LARGEST_FRAME - HEAD} bytes of values")
    keep = p.this + kept.offset
    goes_on = isinstance(given, ir.Constant)
    with _texts(p, (between,) if goes_on else (given, between), value, text) as at:
        p.code.call("strtok", to, keep if goes_on else at[0], at[-1], keep, p.strsize)


def index(p: Printing, node: ir.Call, value: Emit, text: Text) -> None:
    """Print index() or rindex(): rax is the position, or -1."""
    numbers, strings = _parted(node)
    last = _INDEXES.index(node.name)
    with _texts(p, strings, value, text, True) as at, _numbers(p, numbers, value) as given:
        p.code.call("index", last, at[0], at[1], given[0] if given else _LONGEST * last, p.strsize)


def character(p: Printing, node: ir.Call, value: Emit, text: Text) -> None:
    """Print code after which rax is the character at a position of a string."""
    numbers, strings = _parted(node)
    with p.frame.room() as to, _texts(p, strings, value, text) as at, _numbers(p, numbers, value) as given:
        p.code.call("character", to, at[0], given[0], p.strsize)
        p.fails()
        p.code.recall(to)


def length(p: Printing, node: ir.Call, value: Emit, text: Text) -> None:
    """Print strlen(): rax is the number of characters."""
    with _texts(p, node.arguments[:1], value, text) as at:
        p.code.call("strlen", at[0], p.strsize)


def number(p: Printing, node: ir.Call, value: Emit, text: Text) -> None:
    """Print strtoll(): rax is the number."""
    numbers, strings = _parted(node)
    with p.frame.room() as to, _texts(p, strings, value, text) as at, _numbers(p, numbers, value) as given:
        p.code.call("strtoll", to, at[0], given[0] if given else 10, p.strsize)
        p.fails()
        p.code.recall(to)


def swap(p: Printing, node: ir.Call, value: Emit) -> None:
    """Print htons() and its like."""
    with _numbers(p, node.arguments, value) as given:
        p.code.call("swap", given[0], SWAPS[node.name])


_NO_STRINGS = ("lltostr", _ARGUMENTS, *_ADDRESSES, *_FILES)
_STRINGS = {**dict.fromkeys(("strjoin", "strstr", *_INDEXES), 2), **dict.fromkeys(_NO_STRINGS, 0)}


def _parted(node: ir.Call) -> tuple[tuple[ir.Expression, ...], tuple[ir.Expression, ...]]:
    """The arguments that are numbers, and those that are strings, each in order."""
    count = _STRINGS.get(node.name, 1)
    return node.arguments[count:], node.arguments[:count]


@contextmanager
def _texts(
    p: Printing, given: tuple[ir.Expression, ...], value: Emit, text: Text, searches: bool = False
) -> Iterator[list[int]]:  # fmt: skip
    """Print code that makes strings in the frame; yield their offsets. ``searches``: the last one is searched for."""
    with ExitStack() as rooms:
        found: list[int] = []
        for number, each in enumerate(given, 1):
            room = 3 * p.strsize + p.strsize % 2 if searches and number == len(given) else p.strsize
            found.append(rooms.enter_context(p.frame.room(room)))
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
