# SPDX-License-Identifier: LGPL-2.1-or-later
"""Run in a process of its own: steps through code, and prints what steps.c counted; or scribbles.

The arguments are the library of steps.c and the code to step through, or, to scribble, a seed and a number of rounds.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import sys
from typing import cast

from gilk.engines.dtrace.symbols import SymbolNames
from gilk.engines.dtrace.unwinding import Unwinding
from gilk.targets.keeper import Keeper
from gilk.targets.process import Process
from gilk.trace.d.layout import LAYOUT_FIELDS
from gilk.trace.d.memory import MemoryOptions, ProgramMemory

_MOST = 200


class Stack(ctypes.Structure):
    _fields_ = [("count", ctypes.c_uint64), ("frame", ctypes.c_uint64 * _MOST)]


class Steps(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("all", "same", "wrong", "unknown")),
        *((name, Stack) for name in ("ours", "theirs")),
    ]


def prepared(process: Process) -> tuple[int, ctypes.Array[ctypes.c_uint64], mmap.mmap]:
    """Memory with tables of everything that is mapped here: its address, its layout, and the mapping."""
    unwinding = Unwinding(process)
    layout = MemoryOptions(
        processors=1, bufsize=4096, aggsize=4096, unwind_size=unwinding.room, scratchsize=1 << 16
    ).layout()
    buffer = mmap.mmap(-1, layout.size)
    memory = ProgramMemory(layout, buffer)
    memory.initialise()
    unwinding.place(memory.unwind())
    fields = (ctypes.c_uint64 * len(LAYOUT_FIELDS))(*(getattr(layout, name) for name in LAYOUT_FIELDS))
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer)), fields, buffer


def scribble(library: ctypes.CDLL, process: Process, seed: int, rounds: int) -> None:
    at, fields, _ = prepared(process)
    library.scribble.restype = ctypes.c_uint64
    print(library.scribble(ctypes.c_void_p(at), fields, ctypes.c_uint64(seed), ctypes.c_uint64(rounds)))


def step(library: ctypes.CDLL, process: Process) -> None:
    at, fields, _ = prepared(process)
    library.run.restype = ctypes.POINTER(Steps)
    steps = library.run(ctypes.c_void_p(at), fields, library.stepped).contents
    names = SymbolNames(process)

    def shown(stack: Stack) -> list[str]:
        return [f"{n.module}`{n.function}+{n.offset:#x}" for n in names.frames(list(stack.frame[: stack.count]))]

    counted = {name: getattr(steps, name) for name in ("all", "same", "wrong", "unknown")}
    print(json.dumps({**counted, "ours": shown(steps.ours), "theirs": shown(steps.theirs)}))


def main(path: str, *arguments: str) -> None:
    library, process = ctypes.CDLL(path), Process(cast(Keeper, None), os.getpid(), launched=False)
    if arguments:
        scribble(library, process, *map(int, arguments))
    else:
        step(library, process)


main(*sys.argv[1:])
