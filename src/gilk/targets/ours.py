# SPDX-License-Identifier: LGPL-2.1-or-later
"""Recognises the bytes of live code that gilk has written, by the code itself.

Every splice (splice/planner.py) is a jump or a call to gilk's memory. Prefixes without effect come before it if there
was more room; its last bytes may be shared with the code behind it (a pun); or it is a short jump to such a jump (a
bounce). All other bytes that differ from a program's file were written by others: the program, its loader, a debugger.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gilk.arch.asm import CALL32, JMP8, JMP32
from gilk.targets.maps import CODE_NAME, Mapping

_LONG, _SHORT = 5, 2
_IDLE = 0x2E
_MOST_IDLE = 10  # an instruction has 15 bytes at most, five of which are the jump

Bits = NDArray[np.bool_]
Bytes = NDArray[np.uint8]


def led_to(maps: Sequence[Mapping]) -> list[tuple[int, int]]:
    """The ranges of gilk's memory that splices lead to."""
    return [(each.start, each.end) for each in maps if each.executable and each.path.startswith(CODE_NAME)]


def written_by_us(code: Bytes, start: int, ranges: Sequence[tuple[int, int]]) -> Bits:
    """For each byte of ``code``, which lies at address ``start``, whether it belongs to a splice that leads to one of
    ``ranges``."""
    ours = np.zeros(len(code), np.bool_)
    long = _long(code, start, ranges)
    _mark(ours, long, _LONG)
    for at in long.tolist():
        low = at
        while low > max(at - _MOST_IDLE, 0) and code[low - 1] == _IDLE:
            low -= 1
        ours[low:at] = True
    _mark(ours, _short(code, long[code[long] == JMP32[0]]), _SHORT)
    return ours


def _long(code: Bytes, start: int, ranges: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """The offsets of jumps and calls that lead to one of ``ranges``."""
    at = np.flatnonzero((code[: 1 - _LONG] == JMP32[0]) | (code[: 1 - _LONG] == CALL32[0]))
    displacement = np.zeros(len(at), np.uint32)
    for place in range(4):
        displacement |= code[at + 1 + place].astype(np.uint32) << np.uint32(8 * place)
    target = start + at + _LONG + displacement.view(np.int32).astype(np.int64)
    inside = np.zeros(len(at), np.bool_)
    for low, high in ranges:
        inside |= (target >= low) & (target < high)
    return at[inside]


def _short(code: Bytes, long: NDArray[np.int64]) -> NDArray[np.int64]:
    """The offsets of short jumps that lead to one of the offsets ``long``."""
    at = np.flatnonzero(code[: 1 - _SHORT] == JMP8[0])
    target = at + _SHORT + code[at + 1].view(np.int8).astype(np.int64)
    return at[np.isin(target, long)]


def _mark(ours: Bits, at: NDArray[np.int64], size: int) -> None:
    for place in range(size):
        ours[at + place] = True
