# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads the state of advice that is under way in stopped threads (native/runtime/advice.h): on which stacks they are,
and where calls go on."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gilk.targets.held import Held
from gilk.targets.memory import Memory
from gilk.values import dataclass

_STATE = struct.Struct("<5Q")  # struct gilk_advising: shown, next, newest, running, left
_AT = 200  # offset of it in struct gilk_block
_ACTIVATION = struct.Struct("<4Q")  # struct gilk_activation: previous, rsp, advice, resume
_RESUME = 24
_NAME, _LONGEST = 32, 64  # offset of the function's name in struct gilk_advice; bytes of the name that are read
_MOST = 1 << 14  # activations of one thread; the stack has room for no more


@dataclass(frozen=True, slots=True)
class Resumption:
    """The word at ``slot`` holds ``address``, at which an advised call goes on in its patch."""

    slot: int
    address: int


@dataclass(frozen=True, slots=True)
class _Activation:
    """An activation at address ``at`` of a stack of advice; the other fields are those of struct gilk_activation."""

    at: int
    rsp: int
    advice: int
    resume: int


def is_on_stack(held: Held, rsp: int) -> bool:
    """Whether a stack pointer is on a stack of advice."""
    start, size = held.advice
    return start <= rsp < start + size


def left(held: Held, memory: Memory, base: int) -> int:
    """The stack pointer on the program's stack of a thread whose advice is running; 0 if none is. ``base``: the
    thread's GS base."""
    state = _state(held, memory, base)
    return state[4] if state[3] else 0


def under_way(held: Held, memory: Memory, base: int, rsp: int) -> set[str]:
    """The names of the functions that have calls with advice under way in a thread. ``rsp``: its stack pointer. A call
    that was left by other means, such as longjmp(), has its stack pointer below that, and does not count."""
    state = _state(held, memory, base)
    rsp = (state[4] or rsp) if is_on_stack(held, rsp) else rsp
    calls = list(_activations(held, memory, state[2]))
    return {_named(held, memory, one.advice) for n, one in enumerate(calls) if one.rsp >= rsp or (state[3] and not n)}


def _named(held: Held, memory: Memory, advice: int) -> str:
    """The name of the function that has this advice, with unprintable characters as "?"; "?" if the process has
    overwritten it."""
    at = int.from_bytes(memory.some(advice + _NAME, 8), "little") if held.in_arena(advice) else 0
    name = memory.some(at, _LONGEST).split(b"\0")[0].decode("utf-8", "replace")
    return "".join(one if one.isprintable() else "?" for one in name) or "?"


def resumptions(held: Held, memory: Memory, base: int) -> Iterator[Resumption]:
    """The resumptions of all calls of a thread that have advice, the newest first."""
    for one in _activations(held, memory, _state(held, memory, base)[2]):
        yield Resumption(one.at + _RESUME, one.resume)


def _activations(held: Held, memory: Memory, at: int) -> Iterator[_Activation]:
    """The activations from the one at an address on, the newest first."""
    for _ in range(_MOST):
        if not is_on_stack(held, at):
            return
        content = memory.some(at, _ACTIVATION.size)
        if len(content) < _ACTIVATION.size:
            return
        previous, *others = _ACTIVATION.unpack(content)
        yield _Activation(at, *others)
        at = previous


def _state(held: Held, memory: Memory, base: int) -> tuple[int, ...]:
    """The state in the block at ``base``; zeros if there is no advice, or no block there."""
    if held.advice[1] and held.is_block(base):
        content = memory.some(base + _AT, _STATE.size)
        if len(content) == _STATE.size:
            return _STATE.unpack(content)
    return (0,) * 5
