# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aborts restartable sequences (linux/rseq.h) of a thread that is borrowed.

The kernel aborts a sequence when the thread is preempted inside it, but forgets that it was in one as soon as the
thread runs anywhere else: a borrowed thread would come back to the middle of its sequence and go on, unprotected. So
gilk makes the abort, which a preemption at this moment would have brought, at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct

from gilk.targets import ptrace
from gilk.targets.memory import Memory
from gilk.targets.thread import Thread

_GET_CONFIGURATION = 0x420F  # Linux 5.13
_CS_IN_AREA = 8
_CS = struct.Struct("<IIQQQ")  # version, flags, start, length, abort


class _Configuration(ctypes.Structure):
    """struct ptrace_rseq_configuration, linux/ptrace.h."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("area", "size_and_signature", "flags")]


def abort(thread: Thread, memory: Memory) -> None:
    """If the thread is in a restartable sequence, send it to the sequence's abort handler."""
    with contextlib.suppress(OSError, struct.error):  # the program's pointers may lead anywhere
        configuration = _Configuration()
        ptrace.call(_GET_CONFIGURATION, thread.tid, ctypes.sizeof(configuration), configuration)
        if not configuration.area:
            return
        slot = configuration.area + _CS_IN_AREA
        section = int.from_bytes(memory.read(slot, 8), "little")
        if not section:
            return
        _, _, start, length, handler = _CS.unpack(memory.read(section, _CS.size))
        if start <= thread.registers.rip < start + length:
            memory.write(slot, bytes(8))
            thread.move(handler)
