# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the words that the runtime in each arena reads: struct gilk_params, native/runtime/runtime.h."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from enum import IntEnum

import numpy as np

from gilk.targets.base import Target
from gilk.targets.symbols import Resolver
from gilk.toolchain.runtime import runtime

_XSAVE = 16384  # room for every component; /proc/cpuinfo does not say, so enough for AVX-512 and AMX


class ArenaWord(IntEnum):
    """Words that are the same in all arenas, and may be set after an arena was opened; the values are offsets in the
    struct."""

    PLACES = 32
    SIDE = 48
    ADVICE = 56
    ONWARD = 64


class ArenaParameters:
    """The parameters of all arenas. ``code`` is the memory that holds the arenas one behind the other."""

    def __init__(self, process: Target, resolver: Resolver, code: mmap.mmap) -> None:
        self._process, self._resolver, self._code = process, resolver, code
        self._places: list[int] = []
        self._told: dict[ArenaWord, int] = {}

    def begin(self, arena: int, base: int) -> None:
        """Fill in the parameters of a new arena, at the offset ``arena`` of ``code`` and at ``base`` in the process."""
        at = arena + runtime().symbols["gilk_params"]
        errno = self._resolver.find_exported("__errno_location")
        values = (self._process.keeper.data_address(), errno.address if errno else 0, base, _XSAVE)
        self._code[at : at + 32] = np.array(values, np.uint64).tobytes()
        numbers = (self._process.own_number, self._process.pid)
        self._code[at + 40 : at + 48] = np.array(numbers, np.uint32).tobytes()
        self._places.append(at)
        for parameter, address in self._told.items():
            self._set(at + parameter, address)

    def tell(self, parameter: ArenaWord, address: int) -> None:
        """Set a word in all arenas, present and future. Threads read it at their next hit, even if they have a block
        already."""
        self._told[parameter] = address
        for at in self._places:
            self._set(at + parameter, address)

    def map_stacks(self, parameter: ArenaWord, mapping: Callable[[int], int], blocks: int) -> None:
        """Have ``mapping`` map stacks for ``blocks`` threads, and set the word ``parameter`` to their address; only the
        first time."""
        if parameter not in self._told:
            self.tell(parameter, mapping(blocks))

    def _set(self, at: int, word: int) -> None:
        self._code[at : at + 8] = word.to_bytes(8, "little")
