# SPDX-License-Identifier: LGPL-2.1-or-later
"""The printer of variables: it reads them into rax and writes them from rax; strings go through the frame."""

from __future__ import annotations

from collections.abc import Callable

from gilk.lang import ir
from gilk.lang.to_kernel import data, parts, scratch
from gilk.lang.to_kernel.code import Label
from gilk.lang.to_kernel.printing import GLOBALS_START, Printing, width
from gilk.lang.to_kernel.refused import NotInKernel
from gilk.lang.types import String

Emit = Callable[[Printing, ir.Expression], None]


def read(p: Printing, node: ir.Place | ir.Keyed, value: Emit) -> None:
    if isinstance(node.type, String):
        raise NotInKernel("a string as a number")
    size, _ = width(node.type)
    if isinstance(node, ir.Place) and node.scope == "this":
        p.load(node.type, p.this + node.offset)
        return
    with p.frame.room() as to:
        if isinstance(node, ir.Place):
            p.code.call("load_global", GLOBALS_START + node.offset, to, size)
        else:
            data.load_keyed(p, node, to, size, value)
        p.load(node.type, to)


def write(p: Printing, target: ir.Target, value: Emit) -> None:
    """Print a store of rax, which is then the stored value."""
    size, _ = width(target.type)
    match target:
        case ir.Place(scope="this", offset=offset):
            p.code.emit(f"store {size}", p.this + offset)
        case ir.Place(offset=offset):
            with p.frame.room() as kept:
                p.code.keep(kept)
                p.code.call("store_global", kept, GLOBALS_START + offset, size)
                p.code.recall(kept)
        case ir.Keyed():
            with p.frame.room() as kept:
                p.code.keep(kept)
                _store_keyed(p, target, kept, size, value)
                p.code.recall(kept)
        case ir.Field():
            scratch.store(p, target, value)
        case ir.Part():
            parts.write(p, target, value)


def _store_keyed(p: Printing, target: ir.Keyed, kept: int, size: int, value: Emit) -> None:
    """Print a store to a looked-up variable; a value of 0 deletes the variable."""
    gone, done = Label(), Label()
    with p.frame.room(target.key_size) as at:
        data.key(p, at, target.keys, target.layout, target.key_size, value)
        p.code.recall(kept)
        p.code.emit("test rax")
        p.code.branch("jz", gone)
        p.code.call("store_dynamic", data.variable(target), at, target.key_size, kept, size)
        p.code.branch("jmp", done)
        p.code.place(gone)
        p.code.call("delete_dynamic", data.variable(target), at, target.key_size)
        p.code.place(done)


def write_string(p: Printing, target: ir.Target, given: ir.Expression, value: Emit) -> None:
    """Print a store of a string. It leaves no value in rax."""
    size = p.strsize
    if data.is_null(given):
        _forget(p, target, value)
        return
    if isinstance(target, ir.Place) and p.nulls.is_marked(target):
        raise NotInKernel("a variable with NULL for a string")
    if not isinstance(target, ir.Place | ir.Keyed):
        raise NotInKernel("a store of a string to memory, or to a part of a variable")
    with p.frame.room(size) as at:
        data.text(p, given, at, size, value)
        if isinstance(target, ir.Keyed):
            with p.frame.room(target.key_size) as found:
                data.key(p, found, target.keys, target.layout, target.key_size, value)
                p.code.call("store_dynamic", data.variable(target), found, target.key_size, at, size)
        elif target.scope == "this":
            p.code.call("copy", at, p.this + target.offset, size)
        else:
            p.code.call("store_global", at, GLOBALS_START + target.offset, size)


def _forget(p: Printing, target: ir.Target, value: Emit) -> None:
    if not isinstance(target, ir.Keyed):
        raise NotInKernel("a variable with NULL for a string")
    with p.frame.room(target.key_size) as at:
        data.key(p, at, target.keys, target.layout, target.key_size, value)
        p.code.call("delete_dynamic", data.variable(target), at, target.key_size)
