# SPDX-License-Identifier: LGPL-2.1-or-later
"""The runtime of a process, compiled for the host of tests, and memory for its threads' blocks."""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Callable

import numpy as np

from gilk.trace import layout
from gilk.trace.drain import Drain
from gilk.trace.layout import Geometry, Shared

PAIR, TEXT = 1, 3  # record classes
CLIENTS_NUMBER = 4242  # of this process, in harness.c
FUNCTION = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_uint64), ctypes.c_uint32)
Registers = ctypes.c_uint64 * 18


def register(name: str) -> int:
    return layout.REGISTERS.index(name)


class Arena:
    """Shared memory for two threads; with a ``number``, it belongs to that client."""

    def __init__(self, number: int = 0) -> None:
        self.geometry = Geometry.plan(1, {PAIR, TEXT}, threads=2, ring_bytes=4096)
        self.map = mmap.mmap(-1, self.geometry.size + self.geometry.stride)  # and the block behind the last
        self.geometry.initialise(memoryview(self.map))
        self.shared, self.drain = Shared(self.geometry, self.map), Drain(self.geometry, self.map)
        self.shared.control["self"] = number
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.gate = np.frombuffer(self.map, layout.GATE, 1, layout.GATES_AT)[0]
        self.parts = np.frombuffer(self.map, "<u8", layout.PARTS, layout.PARTS_AT)

    def blocks(self) -> list[int]:
        """The tid of each block's owner; 0 for free blocks."""
        return [int(head["tid"]) if head["state"] else 0 for head in self.shared.heads]

    def block(self, index: int) -> int:
        """The address of the block."""
        return self.address + self.geometry.block_offset(index)

    def parts_of(self, index: int) -> np.ndarray:
        return np.frombuffer(self.map, "<u8", layout.PARTS, self.geometry.block_offset(index) + layout.PARTS_AT)


def in_thread(function: Callable[[], object]) -> object:
    got: list[object] = []
    thread = threading.Thread(target=lambda: got.append(function()))
    thread.start()
    thread.join()
    return got[0]
