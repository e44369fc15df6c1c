# SPDX-License-Identifier: LGPL-2.1-or-later
"""Threads that wait at a gate (native/runtime/gate.c), as the keeper sees them.

Such a thread is inside an instrument, which it does not leave before the client has done its part; and for that the
client may need the keeper. So a change does not wait for it, unless the patch that it goes back to is to go.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from gilk.targets.memory import Memory

_AT, _COUNT = 1024, 8  # in the control page, native/abi/gilk_abi.h
_GATE = struct.Struct("<6I3Q")  # struct gilk_gate
_GOES_BACK = 18 * 8  # from struct gilk_regs to the return address that leads into the patch (native/host/process.S)
_DEEPEST = 1024  # bytes of stack that a gate needs


def goes_back_to(memory: Memory, controls: Iterable[int], rsp: int) -> int | None:
    """Where a thread that waits at a gate goes on in its patch; None when it waits at none. ``controls``: the control
    pages. It is known by its stack: numbers of threads are others in a container."""
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
    """No thread waits for a client any more. Raises OSError."""
    memory.write(control + _AT, bytes(_GATE.size * _COUNT))
