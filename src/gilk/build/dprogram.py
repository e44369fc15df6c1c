# SPDX-License-Identifier: LGPL-2.1-or-later
"""The clauses of a D program as native code for this very process: BEGIN, END, and what happens by the clock."""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path

from gilk.build.toolchain import NATIVE, compile_object, link_shared

#: D's arithmetic wraps, and its variables are bytes that are read as what they are declared to be.
FLAGS = ("-I", str(NATIVE), "-fwrapv", "-fno-strict-aliasing", "-Wno-unused-function", "-Wno-unused-value")
ARGUMENTS = 10
_VISIBLE = "#pragma GCC visibility push(default)\n"  # instruments are compiled with all of it hidden


class Event(ctypes.Structure):
    """struct gd_event, native/abi/gilk_d.h."""

    _fields_ = [
        ("arg", ctypes.c_uint64 * ARGUMENTS),
        *((name, ctypes.c_uint64) for name in ("time", "thread")),
        *((name, ctypes.c_uint32) for name in ("probe", "cpu", "pid", "tid")),
        ("edge", ctypes.c_uint64),
        ("regs", ctypes.c_void_p),
        *((name, ctypes.c_uint32) for name in ("error", "reserved")),
    ]


class Native:
    """A program that is loaded here. Raises CompileError `does-not-compile`: never for a program that was checked."""

    def __init__(self, text: str) -> None:
        with tempfile.TemporaryDirectory(prefix="gilk-") as name:
            source, made, library = (Path(name) / each for each in ("program.c", "program.o", "program.so"))
            source.write_text(_VISIBLE + text)
            compile_object(source, made, ["-fPIC", *FLAGS])
            link_shared(made, library)
            self._library = ctypes.CDLL(str(library))

    def fire(self, group: int, memory: int, event: Event, always: bool = False, looks: bool = False) -> None:
        """Run the clauses of a group. ``memory``: its address here. ``always``: also when the program is not active.

        ``looks``: they may read the memory of the process that the event is of, else of none.
        """
        run = self._library[f"d_group_{group}"]
        run.restype = None
        run(ctypes.c_void_p(memory), ctypes.byref(event), ctypes.c_uint(1 | always << 1 | looks << 2))
