# SPDX-License-Identifier: LGPL-2.1-or-later
"""Call helpers of the driver one by one in this process, and count their instructions."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from dataclasses import dataclass

from gilk.lang.d.kernel_code import KernelCode
from gilk.lang.to_kernel.code import HEAD, LARGEST_FRAME
from gilk.lang.to_kernel.forms import EXIT
from gilk.lang.to_kernel.helpers import HELPERS
from gilk.toolchain.dprogram import ClauseEvent
from gilk.trace.d.layout import LAYOUT_FIELDS
from gilk.trace.d.memory import MemoryOptions, ProgramMemory
from tests.native.checked.library import Program, library

NAME = b"a" * 255  # of each probe
_MASK = (1 << 64) - 1


@dataclass
class Called:
    steps: int
    result: int
    frame: bytearray
    fault: int


class Bench:
    """A program without code, with memory by the given options, and a frame of the largest size."""

    def __init__(self, options: MemoryOptions) -> None:
        layout = options.layout()
        self._buffer = mmap.mmap(-1, layout.size)
        self.memory = ProgramMemory(layout, self._buffer)
        self.memory.initialise()
        self.memory.control.state = 1
        code = KernelCode(EXIT, LARGEST_FRAME, (0,), (), (), (), NAME + b"\0", (0,) * 8)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._buffer))
        self.program = Program(code, [int(getattr(layout, name)) for name in LAYOUT_FIELDS], address)
        self.frame = bytearray(LARGEST_FRAME)
        self.begin()

    def begin(self) -> None:
        """Begin another clause."""
        library().prepared(ctypes.byref(ClauseEvent(time=1, thread=7, probe=1)))

    def put(self, at: int, data: bytes) -> int:
        """Put data into the frame, ``at`` bytes after its head. Returns its place."""
        place = HEAD + at
        self.frame[place : place + len(data)] = data
        return place

    def call(self, name: str, *given: int) -> Called:
        numbers = (ctypes.c_uint64 * 5)(*(one & _MASK for one in given), *(0,) * (5 - len(given)))
        frame = (ctypes.c_uint8 * LARGEST_FRAME).from_buffer(self.frame)
        counted: Callable[..., int] = library().counted
        library().counted.restype = ctypes.c_uint64
        result = ctypes.c_uint64()
        steps = counted(HELPERS[name].number, frame, LARGEST_FRAME, numbers, ctypes.byref(result))
        return Called(steps, result.value, self.frame, int(library().fault_of_run()))

    def within(self, name: str, *given: int) -> Called:
        """Call a helper, and assert that it takes no more instructions than the checker counts for these numbers."""
        called, most = self.call(name, *given), bound(name, *given)
        assert called.steps <= most, f"{name} took {called.steps} instructions, and counts as {most}"
        return called


def bound(name: str, *given: int) -> int:
    """The instructions that the checker counts if it knows the sizes."""
    helper = HELPERS[name]
    return helper.cost + helper.per_word * sum(given[which] // 8 + 1 for which in helper.sizes)
