# SPDX-License-Identifier: LGPL-2.1-or-later
"""The printer of scratch memory, which a clause allocates, of stores through pointers, which may go to scratch memory
only, and of stores to a process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from gilk.lang import ir
from gilk.lang.to_kernel import data, parts
from gilk.lang.to_kernel.code import WORD, Slot
from gilk.lang.to_kernel.printing import Printing, Room, width
from gilk.lang.types import INT64, UINT64

Emit = Callable[[Printing, ir.Expression], None]


def alloca(p: Printing, node: ir.Call, value: Emit) -> None:
    with _computed(p, node.arguments, value) as (size,):
        p.code.call("alloca", Slot(size))
    p.fails()


def bcopy(p: Printing, node: ir.Call, value: Emit) -> None:
    """Print bcopy(), or copyinto(), whose arguments are in another order."""
    with _computed(p, node.arguments, value) as given:
        source, *rest = map(Slot, given)
        to, size = rest if node.name == "bcopy" else reversed(rest)
        p.code.call("bcopy", to, source, size)
    p.fails()


def bcopy_string(p: Printing, node: ir.Call, value: Emit) -> None:
    source, *rest = node.arguments
    length = data.longest(p, source)
    with p.frame.room(length) as at:
        data.text(p, source, at, length, value)
        with _computed(p, rest, value) as (to, size):
            p.code.call("bcopy_text", Slot(to), Slot(size), at, length)
    p.fails()


def placed(p: Printing, node: ir.Call, value: Emit) -> None:
    """Print code after which rax is the address of a copy of a string in scratch memory."""
    with p.frame.room(p.strsize) as at, p.frame.room() as address:
        data.text(p, node.arguments[0], at, p.strsize, value)
        p.code.call("alloca", p.strsize)
        p.fails()
        p.code.keep(address)
        p.code.call("assign", Slot(address), at, p.strsize)
        p.fails()
        p.code.recall(address)


def store(p: Printing, target: ir.Field, value: Emit) -> None:
    """Print a store of rax through a pointer; rax is then the stored value."""
    size, _ = width(target.type)
    with p.frame.room() as kept, p.frame.room() as address, p.frame.room() as made:
        p.code.keep(kept)
        value(p, target.address)
        p.code.keep(address)
        if target.bits:
            p.code.emit("store immediate", made, 0)
            p.code.call("load", made, Slot(address), size)
            p.fails()
            parts.merge(p, kept, made, target.bits, target.shift)
        p.code.call("assign", Slot(address), made if target.bits else kept, size)
        p.fails()
        parts.recall(p, target, kept)


@contextmanager
def once(p: Printing, target: ir.Field, value: Emit) -> Iterator[ir.Field]:
    """The same target with its address computed once and kept in the frame, for code that reads the target and then
    writes it.
    """
    outer, number = p.bound, -1 - len(p.bound)
    with p.frame.room() as address:
        value(p, target.address)
        p.code.keep(address)
        p.bound = {**outer, number: Room(address, WORD)}
        yield replace(target, address=ir.Bound(UINT64, number))
        p.bound = outer


# Actions that change the process.


def copyout(p: Printing, arguments: tuple[ir.Expression, ...], value: Emit) -> None:
    with _computed(p, arguments, value) as given:
        p.code.call("copyout", *map(Slot, given))
    p.fails()


def copyoutstr(p: Printing, arguments: tuple[ir.Expression, ...], value: Emit) -> None:
    source, *rest = arguments
    length = data.longest(p, source)
    with p.frame.room(length) as at:
        data.text(p, source, at, length, value)
        with _computed(p, rest, value) as given:
            p.code.call("copyout_text", at, length, *map(Slot, given))
    p.fails()


def chill(p: Printing, arguments: tuple[ir.Expression, ...], value: Emit) -> None:
    with _computed(p, [ir.Convert(INT64, each) for each in arguments], value) as (time,):
        p.code.call("chill", Slot(time))
    p.fails()


@contextmanager
def _computed(p: Printing, given: tuple[ir.Expression, ...] | list[ir.Expression], value: Emit) -> Iterator[list[int]]:
    """Print code that computes each value into a word of the frame; yield their offsets."""
    with ExitStack() as rooms:
        places = [rooms.enter_context(p.frame.room()) for _ in given]
        for place, each in zip(places, given, strict=True):
            value(p, each)
            p.code.keep(place)
        yield places


#: The printers of calls that leave an address in rax, or no value.
CALLS: dict[str, Callable[[Printing, ir.Call, Emit], None]] = {
    "alloca": alloca, "bcopy": bcopy, "copyinto": bcopy, "bcopy_string": bcopy_string, "placed": placed,
}  # fmt: skip
ACTS: dict[str, Callable[[Printing, tuple[ir.Expression, ...], Emit], None]] = {
    "copyout": copyout, "copyoutstr": copyoutstr, "chill": chill,
}  # fmt: skip
