# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions of the kernel's headers that only read members of a struct, and the expressions for which they stand.

Such a call is confined as its expression is (kernel/expressions.py): by checked loads, and never with an address that a
process may have chosen. The kernel's own functions would follow any pointer. Members and constants are those of Linux
6.1: include/linux/fs.h, dcache.h, sched.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from gilk.lang.aspect.fragments import expression
from gilk.lang.d import ast

#: Expressions by function, with parameters. Each parameter stands once, so that nested calls do not grow the text
#: exponentially.
_EXPRESSIONS = {
    "file_inode(f)": "f->f_inode",
    "d_inode(d)": "d->d_inode",
    "d_is_negative(d)": "(d->d_flags & DCACHE_ENTRY_TYPE) == DCACHE_MISS_TYPE",
    "d_is_positive(d)": "(d->d_flags & DCACHE_ENTRY_TYPE) != DCACHE_MISS_TYPE",
    "d_is_reg(d)": "(d->d_flags & DCACHE_ENTRY_TYPE) == DCACHE_REGULAR_TYPE",
    "d_is_symlink(d)": "(d->d_flags & DCACHE_ENTRY_TYPE) == DCACHE_SYMLINK_TYPE",
    "i_size_read(i)": "i->i_size",
    "task_pid_nr(t)": "t->pid",
    "task_tgid_nr(t)": "t->tgid",
}


def _head(text: str) -> ast.Call:
    found = expression(text)
    assert isinstance(found, ast.Call), text
    return found


_TREES = {head.name: (head, expression(text)) for head, text in ((_head(k), v) for k, v in _EXPRESSIONS.items())}


def accessed(call: ast.Call) -> ast.Expr | None:
    """The expression for which a call stands; None if the function is another one or the number of
    arguments is wrong.
    """
    head, value = _TREES.get(call.name, (None, None))
    if head is None or value is None or len(head.arguments) != len(call.arguments):
        return None
    names = [one.name for one in head.arguments if isinstance(one, ast.Name)]
    found: ast.Expr = _with(value, dict(zip(names, call.arguments, strict=True)))
    return found


def _with(node: Any, values: Mapping[str, ast.Expr]) -> Any:
    """The same tree with each name in ``values`` replaced by its expression."""
    match node:
        case ast.Name(name=name):
            return values.get(name, node)
        case tuple():
            return tuple(_with(one, values) for one in node)
        case ast.Node():
            return replace(node, **{one.name: _with(getattr(node, one.name), values) for one in fields(node)})
    return node
