# SPDX-License-Identifier: LGPL-2.1-or-later
"""The place of a stopped thread in the program's own code, also while the thread runs a function that a patch has
called."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from gilk.targets.held import Held
from gilk.targets.memory import ProcessMemory
from gilk.targets.places import Places
from gilk.targets.ptrace import Registers
from gilk.targets.running import shown

ARENA, PATCH, POINT = range(0x1000, 0x9000), 0x2040, 0x70001000
IN_RUNTIME = 0x1010


@pytest.fixture
def end() -> Iterator[int]:
    """The end of two mapped pages, behind which nothing is mapped."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    start = libc.mmap(None, 3 * mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    libc.munmap(start + 2 * mmap.PAGESIZE, mmap.PAGESIZE)
    yield start + 2 * mmap.PAGESIZE
    libc.munmap(start, 2 * mmap.PAGESIZE)


@pytest.mark.parametrize("above", [8, 64, 5000])
def test_a_thread_in_a_function_called_by_a_patch_has_its_place_in_the_program(end: int, above: int) -> None:
    """The place is found however little of the stack there is above."""
    ctypes.c_uint64.from_address(end - above).value = PATCH
    held = cast(Held, SimpleNamespace(in_arena=ARENA.__contains__))
    patches = cast(Places, SimpleNamespace(stands_for={PATCH: POINT}.get))
    registers = cast(Registers, SimpleNamespace(rip=IN_RUNTIME, rsp=end - above))
    with ProcessMemory(os.getpid()) as memory:
        assert shown(registers, held, patches, memory) == POINT
