# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads the state of advice that is under way in stopped threads (native/runtime/advice.h): on which stacks they are,
and where calls go on."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gilk.targets.held import Held
from gilk.targets.memory import Memory
from gilk.values import dataclass

_STATE = struct.Struct("<6Q")  # struct gilk_advising: shown, next, newest, running, left, high
_AT = 200  # offset of it in struct gilk_block
_ACTIVATION = struct.Struct("<4Q")  # struct gilk_activation: previous, rsp, advice, resume
_RESUME = 24
_NAME, _LONGEST = 32, 64  # offset of the function's name in struct gilk_advice; bytes of the name that are read
_MOST = 1 << 14  # activations of one thread; the stack has room for no more
_COPY = struct.Struct("<QQQ")  # struct gilk_copy_call: frame, number, function
_COPY_SIZE, _COPY_COUNT, _COPIES_END = 80, 16, 64  # its size; what abi/gilk_abi.h says of the end of the stack
_COPIES = ((1 << 16) - _COPIES_END) // _COPY_SIZE


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
    running = next(_activations(held, memory, state[3]), None)  # which brief advice does not add to the calls
    calls += [running] if running is not None else []
    found = {_of(held, memory, one.advice) for one in calls if one.rsp >= rsp or one == running}
    return found | {_named(memory, name) for frame, name in _copies(held, memory, state[5]) if frame > rsp}


def _copies(held: Held, memory: Memory, end: int) -> Iterator[tuple[int, int]]:
    """The calls at copies that are under way in the thread whose stack of advice ends at ``end``: the frame of each,
    and the address of its function's name (native/include/gilk_copies.h)."""
    if not is_on_stack(held, end - 1):
        return
    count = int.from_bytes(memory.some(end - _COPY_COUNT, 8), "little")
    for number in range(min(count, _COPIES)):
        content = memory.some(end - _COPIES_END - (number + 1) * _COPY_SIZE, _COPY.size)
        if len(content) == _COPY.size:
            frame, _, name = _COPY.unpack(content)
            yield frame, name if held.in_arena(name) else 0


def _of(held: Held, memory: Memory, advice: int) -> str:
    """The name of the function that has this advice."""
    return _named(memory, int.from_bytes(memory.some(advice + _NAME, 8), "little") if held.in_arena(advice) else 0)


def _named(memory: Memory, at: int) -> str:
    """The name at an address, with unprintable characters as "?"; "?" if the process has overwritten it."""
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
    return (0,) * 6
