# SPDX-License-Identifier: LGPL-2.1-or-later
"""The way back of a borrowed thread if its tracer is killed before it has given the thread its registers back: the
thread restores them itself.

A thread that makes system calls for gilk stands before ``mov $15, %eax; syscall``, which is rt_sigreturn(2), with its
stack pointer at a signal frame that gilk has written: it holds the thread's own registers, signal mask and extended
state. Every system call that the thread makes for gilk is an rt_sigreturn when it enters the kernel, is turned into
another one there by the tracer, and returns to the same place. So whenever its tracer goes, and the stops with it, the
next thing that the thread does by itself is to go on where it was. A system call that it was in is restarted.

The frame lies in memory of gilk's, once there is some. Before, and while that memory is taken out, it lies below the
thread's own stack pointer, if that points into the thread's own stack: in a heap, where Go has its stacks and
coroutines may have theirs, other data lies below a stack pointer. The bytes that the frame overwrites are put back all
the same: a signal's stack may be a part of a stack, too.
"""

from __future__ import annotations

import ctypes
import struct

from gilk.targets import ptrace
from gilk.targets.frames import find_restorers
from gilk.targets.maps import Mapping, read_maps
from gilk.targets.memory import Memory
from gilk.targets.shelter import Shelter
from gilk.targets.thread import Thread
from gilk.values import dataclass

SIZE = 1 << 16  # bytes; handlers of signals that arrive in between run on this memory
_PAGE = 4096
_RED_ZONE = 128
_LEAST = 2 * _PAGE  # bytes of stack that have to be left below a frame

_GETREGSET, _XSTATE = 0x4204, 0x202  # NT_X86_XSTATE
_MOST_STATE = 1 << 14
_SOFTWARE, _MAGIC1, _MAGIC2 = 464, 0x46505853, 0x46505845  # struct _fpx_sw_bytes, asm/sigcontext.h
_IN_USE, _TILES, _BEFORE_TILES = 512, 1 << 18, 2816  # the frame has AMX tiles only if the thread has asked for them
_FLAGS = 7  # UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS
_NO_CHANGE = 4  # flags of the alternate stack that sigaltstack(2) refuses, so that it stays
_GENERAL = (
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax", "rcx"),
    *("rsp", "rip", "eflags"),
)
_CONTEXT = struct.Struct("<2Q QI4xQ 18Q 4H 4Q Q 64x Q")  # struct ucontext with struct sigcontext in it


@dataclass(frozen=True)
class Haven:
    """The place where a thread stands before it goes back: ``code`` is its rip there, ``frame`` its stack pointer.
    ``content``: the bytes that were at ``frame`` before."""

    code: int
    frame: int
    content: bytes

    def put_back(self, memory: Memory) -> None:
        """Write what the frame has overwritten; the thread must not need the frame any more. Raises OSError."""
        memory.write(self.frame, self.content)


class _Vector(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


def prepare(thread: Thread, mask: int, memory: Memory, place: Shelter | None) -> Haven | None:
    """Write a frame that leads a stopped thread back to where it is; None where there is no room for it.

    Raises OSError.
    """
    if place is None:
        return None
    state = _extended_state(thread.tid)
    at = place.high - len(state) & -64
    frame = at - _CONTEXT.size & -16
    if frame < place.low:
        return None
    found = Haven(place.code, frame, memory.read(frame, at + len(state) - frame))
    memory.write(frame, _context(thread, mask, at))
    memory.write(at, state)
    return found


def on_stack(thread: Thread, pid: int, memory: Memory) -> Shelter | None:
    """A place below the thread's own stack pointer; None where that may point into anything but a stack, or there is no
    room."""
    maps = read_maps(pid)
    low = _low_end(thread.registers, maps, memory)
    code = min(find_restorers(maps, memory), default=0) if low else 0
    return Shelter(code, low + _LEAST, thread.registers.rsp - _RED_ZONE) if code else None


def _low_end(registers: ptrace.Registers, maps: tuple[Mapping, ...], memory: Memory) -> int:
    """The low end of the stack into which the stack pointer points; 0 if that is not the thread's own stack.

    That is the first thread's stack, or a mapping with a guard below it that has the thread's control block at its
    end, as C libraries make them: the block begins with its own address (System V ABI x86-64, 3.4.6).
    """
    below, rsp, block = 0, registers.rsp, registers.fs_base
    for mapping in maps:
        if mapping.start <= rsp < mapping.end:
            guarded = mapping.start == below and mapping.permissions == "rw-p" and not mapping.path
            own = rsp < block < mapping.end and memory.some(block, 8) == struct.pack("<Q", block)
            return mapping.start if mapping.path == "[stack]" or (guarded and own) else 0
        below = mapping.end if mapping.permissions.startswith("---") else 0
    return 0


def _context(thread: Thread, mask: int, state: int) -> bytes:
    registers = thread.registers.copy()
    if thread.restarting():
        registers.rip -= 2
        registers.rax = registers.orig_rax
    general = (getattr(registers, name) for name in _GENERAL)
    segments = (registers.cs & 0xFFFF, 0, 0, registers.ss & 0xFFFF)
    return _CONTEXT.pack(_FLAGS, 0, 0, _NO_CHANGE, 0, *general, *segments, 0, 0, 0, 0, state, mask)


def _extended_state(tid: int) -> bytes:
    """The extended state of a thread (XSAVE), as it lies in a signal frame. Raises OSError."""
    content = ctypes.create_string_buffer(_MOST_STATE)
    vector = _Vector(ctypes.addressof(content), _MOST_STATE)
    ptrace.call(_GETREGSET, tid, _XSTATE, vector)
    state = bytearray(content.raw[: vector.size])
    features, in_use = (int.from_bytes(state[at : at + 8], "little") for at in (_SOFTWARE, _IN_USE))
    if features & _TILES and not in_use & _TILES:
        features, state = features & ~_TILES, state[:_BEFORE_TILES]
    size = len(state)
    struct.pack_into("<IIQI28x", state, _SOFTWARE, _MAGIC1, size + 4, features, size)
    return bytes(state) + _MAGIC2.to_bytes(4, "little")
