# SPDX-License-Identifier: LGPL-2.1-or-later
"""Which threads of a process run, and where each is: samples of them."""

from __future__ import annotations

import contextlib
import os
import struct

from gilk.splice.frame import RED_ZONE
from gilk.targets.held import Held
from gilk.targets.kernel_threads import says_kernels
from gilk.targets.memory import Memory
from gilk.targets.namespaces import is_here, own_number
from gilk.targets.places import Places
from gilk.targets.ptrace import Registers
from gilk.targets.stat import PROCESSOR, STATE, stat_of
from gilk.targets.thread import Thread
from gilk.targets.world import PtracedThreads
from gilk.values import dataclass

#: As struct gilk_regs has them, native/include/gilk.h.
_ORDER = (
    *("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"),
    *(f"r{number}" for number in range(8, 16)),
    *("rip", "eflags"),
)
MOST_STACK = 1 << 16  # bytes of one, in a sample
PC = _ORDER.index("rip")
_BLOCK = struct.Struct("<Q12xIQ")  # struct gilk_block, native/abi/gilk_abi.h: owner, tid and birth
_DEEPEST = 4096  # bytes of stack that an instrument takes
_STACKS = 16 << 20  # bytes of all stacks that are copied in one stop


@dataclass(frozen=True, slots=True)
class Sample:
    """``tid``: the thread's own number (namespaces.py). ``registers`` in the order of struct gilk_regs; ``thread``: by
    what its variables go. ``stack``: the red zone, and what lies from RSP on, as much as was asked for and is there."""

    tid: int
    cpu: int
    thread: int
    registers: tuple[int, ...]
    stack: bytes = b""


def sampled(world: PtracedThreads, memory: Memory, held: Held, patches: Places, stack: int) -> list[Sample]:
    """Samples of the threads that run just now, with ``stack`` bytes of the stack of each: fewer when many run."""
    where = running(world.pid)
    stack = min(stack, _STACKS // max(len(where), 1))
    found, here = [], is_here(world.pid)
    try:
        for tid, thread in world.stop_some(where).items():
            pc = shown(thread.registers, held, patches, memory)
            known, copy = register_values(thread.registers, pc), _stack(memory, thread.registers.rsp, stack)
            number = tid if here else own_number(tid)
            found.append(Sample(number, where[tid], identity(thread, number, memory), known, copy))
    finally:
        world.resume()
    return found


def running(pid: int) -> dict[int, int]:
    """Threads that run or wait for nothing but a processor, and the one that each was on last; none of the kernel's."""
    found = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                fields = stat_of(pid, int(name))
                if fields[STATE] == b"R" and not says_kernels(fields):
                    found[int(name)] = int(fields[PROCESSOR])
    return found


def _stack(memory: Memory, rsp: int, size: int) -> bytes:
    """With the red zone, of zeros if there is none; nothing if ``size`` is 0."""
    if not size:
        return b""
    return memory.some(rsp - RED_ZONE, RED_ZONE + size) or bytes(RED_ZONE) + memory.some(rsp, size)


def register_values(registers: Registers, pc: int) -> tuple[int, ...]:
    return tuple(pc if name == "rip" else int(getattr(registers, name)) for name in _ORDER)


def shown(registers: Registers, held: Held, patches: Places, memory: Memory) -> int:
    """Where a stopped thread is in the program's own code: also where it is in a patch, or in what that has called."""
    if not held.in_arena(registers.rip):
        return int(registers.rip)
    found = patches.stands_for(registers.rip)
    if found is None:
        stack = memory.some(registers.rsp & -8, _DEEPEST)  # fewer where the stack begins
        words = (word for (word,) in struct.iter_unpack("<Q", stack[: len(stack) & -8]) if held.in_arena(word))
        found = next((at for word in words if (at := patches.stands_for(word)) is not None), None)
    return int(registers.rip) if found is None else found


def identity(thread: Thread, number: int, memory: Memory) -> int:
    """As in probes of the process, once one has met the thread: GS then points at its block. ``number``: its own."""
    with contextlib.suppress(OSError):
        content = memory.read(thread.registers.gs_base, _BLOCK.size) if thread.registers.gs_base else b""
        if len(content) == _BLOCK.size:
            owner, tid, birth = _BLOCK.unpack(content)
            if owner and tid == number:
                return (int(birth) << 22 | int(tid) & 0x3FFFFF) & (1 << 64) - 1  # gd_event, native/runtime/d/context.h
    return 1 << 63 | number
