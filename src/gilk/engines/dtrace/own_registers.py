# SPDX-License-Identifier: LGPL-2.1-or-later
"""The registers for clauses that gilk fires itself: those of its own thread, as getcontext(3) of glibc saves them."""

from __future__ import annotations

import ctypes

from gilk.lang.d import tree
from gilk.lang.facts import facts, union
from gilk.lang.runtime import Does

#: The most that glibc's ucontext_t takes, where its registers begin, and how many there are.
_SIZE, _REGISTERS, _COUNT = 4096, 40, 23
#: The place there of each register of struct gilk_regs (native/include/gilk.h): rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi,
#: r8 to r15, rip and the flags; None for those that getcontext() does not save, because no call keeps them.
_PLACES = (None, 14, 12, 11, 15, 10, 9, 8, 0, 1, None, None, 4, 5, 6, 7, 16, None)
_Kept = ctypes.Array[ctypes.c_uint64]


class OwnRegisters:
    """The registers for the clauses of a program."""

    def __init__(self, program: tree.Program) -> None:
        self._program = program
        self._reads: dict[tuple[int, ...], bool] = {}  # by clauses that fire together, found out once for each tick

    def of(self, clauses: tuple[int, ...]) -> _Kept | None:
        """The registers as struct gilk_regs, if one of the clauses reads some; else None, and where clauses walk
        stacks, of which gilk's thread has none, and where the C library does not tell them."""
        if clauses not in self._reads:
            self._reads[clauses] = self._read(clauses)
        return saved() if self._reads[clauses] else None

    def _read(self, clauses: tuple[int, ...]) -> bool:
        does = union(facts(each.function) for each in self._program.clauses if each.number in clauses).does
        return bool(does & Does.REGISTERS) and not does & Does.WALKS


def saved() -> _Kept | None:
    """The registers of this thread at a call of getcontext(), in the order of struct gilk_regs."""
    save = getattr(ctypes.CDLL(None), "getcontext", None)
    if save is None:
        return None
    context = ctypes.create_string_buffer(_SIZE)
    save(context)
    there = (ctypes.c_uint64 * _COUNT).from_buffer(context, _REGISTERS)
    return (ctypes.c_uint64 * len(_PLACES))(*(0 if place is None else there[place] for place in _PLACES))
