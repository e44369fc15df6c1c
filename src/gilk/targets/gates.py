# SPDX-License-Identifier: LGPL-2.1-or-later
"""Threads that wait at a gate (native/runtime/gate.c), as the keeper sees them.

Such a thread is inside an instrument, which it does not leave before the client has answered; and for that the client
may need the keeper. So a change does not wait for the thread, unless the patch to which it returns is to be removed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from gilk.targets.memory import Memory

_AT, _COUNT = 1024, 8  # in the control page, native/abi/gilk_abi.h
_GATE = struct.Struct("<6I3Q")  # struct gilk_gate
_GOES_BACK = 18 * 8  # offset from struct gilk_regs of the return address into the patch (native/host/process.S)
_DEEPEST = 1024  # bytes of stack that a gate uses


def goes_back_to(memory: Memory, controls: Iterable[int], rsp: int) -> int | None:
    """The address in its patch to which a thread returns that waits at a gate; None when it waits at none.
    ``controls``: the addresses of control pages. The thread is recognised by its stack pointer, because its tid differs
    in a container."""
    for control in controls:
        for frame in _frames(memory, control):
            if frame - _DEEPEST <= rsp <= frame:
                return int.from_bytes(memory.some(frame + _GOES_BACK, 8), "little")
    return None


def _frames(memory: Memory, control: int) -> Iterator[int]:
    content = memory.some(control + _AT, _GATE.size * _COUNT)
    for gate in _GATE.iter_unpack(content[: len(content) - len(content) % _GATE.size]):
        if gate[7]:
            yield gate[7]


def open_gates(memory: Memory, control: int) -> None:
    """Release all threads that wait at gates of this control page. Raises OSError."""
    memory.write(control + _AT, bytes(_GATE.size * _COUNT))
