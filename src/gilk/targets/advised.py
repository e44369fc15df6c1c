# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice under way in stopped threads (native/runtime/advice.h): on which stacks they are, and where calls go on."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gilk.targets.held import Held
from gilk.targets.memory import Memory
from gilk.values import dataclass

_STATE = struct.Struct("<5Q")  # struct gilk_advising: shown, next, newest, running, left
_AT = 200  # of it in struct gilk_block
_ACTIVATION = struct.Struct("<4Q")  # struct gilk_activation: previous, rsp, advice, resume
_RESUME = 24
_MOST = 1 << 14  # activations of one thread; the stack has room for no more


@dataclass(frozen=True, slots=True)
class Resumption:
    """The word at ``slot`` has the address where a call, advised before, goes on in its patch."""

    slot: int
    address: int


def is_on_stack(held: Held, rsp: int) -> bool:
    """On a stack of advice."""
    start, size = held.advice
    return start <= rsp < start + size


def left(held: Held, memory: Memory, base: int) -> int:
    """The program's stack pointer of a thread whose advice is running; 0 of another. ``base``: its GS base."""
    state = _state(held, memory, base)
    return state[4] if state[3] else 0


def resumptions(held: Held, memory: Memory, base: int) -> Iterator[Resumption]:
    """Those of all calls of a thread that have advice, the newest first."""
    at = _state(held, memory, base)[2]
    for _ in range(_MOST):
        if not is_on_stack(held, at):
            return
        content = memory.some(at, _ACTIVATION.size)
        if len(content) < _ACTIVATION.size:
            return
        previous, _, _, address = _ACTIVATION.unpack(content)
        yield Resumption(at + _RESUME, address)
        at = previous


def _state(held: Held, memory: Memory, base: int) -> tuple[int, ...]:
    """The state in the block at ``base``; zeros if there is no advice, or no block there."""
    if held.advice[1] and held.is_block(base):
        content = memory.some(base + _AT, _STATE.size)
        if len(content) == _STATE.size:
            return _STATE.unpack(content)
    return (0,) * 5
