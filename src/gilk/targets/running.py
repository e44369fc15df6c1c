# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds the threads of a process that run, and takes samples of where they are."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gilk.splice.frame import RED_ZONE
from gilk.targets.frames import frames_in_copy
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

#: The order of struct gilk_regs, native/include/gilk.h.
_ORDER = (
    *("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"),
    *(f"r{number}" for number in range(8, 16)),
    *("rip", "eflags"),
)
MOST_STACK = 1 << 16  # bytes of one stack in a sample
PC, RSP = _ORDER.index("rip"), _ORDER.index("rsp")
_BLOCK = struct.Struct("<Q12xIQ")  # struct gilk_block, native/abi/gilk_abi.h: owner, tid and birth
_DEEPEST = 4096  # bytes of stack that an instrument may use
_STACKS = 16 << 20  # bytes of all stacks that are copied in one stop
_MOST_COPIES = 8  # stacks of one thread


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of a thread. ``tid``: its number in its own PID namespace (namespaces.py). ``thread``: the
    identity by which D keeps its thread-local variables. ``registers`` are in the order of struct gilk_regs. ``stack``:
    the red zone and the bytes from RSP on, as far as they were asked for and can be read. ``interrupted``: the
    addresses and the bytes of other stacks, on which signal handlers have interrupted the thread."""

    tid: int
    cpu: int
    thread: int
    registers: tuple[int, ...]
    stack: bytes = b""
    interrupted: tuple[tuple[int, bytes], ...] = ()


def sampled(world: PtracedThreads, memory: Memory, held: Held, patches: Places, stack: int) -> list[Sample]:
    """Samples of the threads that run just now, with up to ``stack`` bytes of the stack of each, fewer when many
    run."""
    where = running(world.pid)
    stack = min(stack, _STACKS // max(len(where), 1))
    try:
        return _samples(world.pid, world.stop_some(where), where, memory, held, patches, stack)
    finally:
        world.resume()


def standing(
    pid: int, threads: Mapping[int, Thread], memory: Memory, held: Held, patches: Places, stack: int
) -> list[Sample]:
    """Samples of threads that are stopped, with up to ``stack`` bytes of the stack of each, fewer when there are many.
    Their processors are not known, and 0."""
    size = min(stack, _STACKS // max(len(threads), 1))
    found = _samples(pid, threads, dict.fromkeys(threads, 0), memory, held, patches, size)
    return [replace(one, interrupted=tuple(_interrupted(one, memory, size))) for one in found]


def _interrupted(one: Sample, memory: Memory, size: int) -> Iterator[tuple[int, bytes]]:
    copies = [(one.registers[RSP] - RED_ZONE, one.stack)]
    for start, content in copies:  # which grows
        for frame in frames_in_copy(content, start, memory):
            known = any(low <= frame.rsp < low + len(each) for low, each in copies)
            if not known and len(copies) < _MOST_COPIES:
                copies.append((frame.rsp, memory.some(frame.rsp, size)))
    yield from copies[1:]


def _samples(
    pid: int, threads: Mapping[int, Thread], where: Mapping[int, int], memory: Memory, held: Held, patches: Places,
    stack: int,
) -> list[Sample]:  # fmt: skip
    found, here = [], is_here(pid)
    for tid, thread in threads.items():
        pc = shown(thread.registers, held, patches, memory)
        known, copy = register_values(thread.registers, pc), _stack(memory, thread.registers.rsp, stack)
        number = tid if here else own_number(tid)
        found.append(Sample(number, where[tid], identity(thread, number, memory), known, copy))
    return found


def running(pid: int) -> dict[int, int]:
    """The threads that run or wait only for a processor, and the processor that each was on last; without the kernel's
    own threads."""
    found = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                fields = stat_of(pid, int(name))
                if fields[STATE] == b"R" and not says_kernels(fields):
                    found[int(name)] = int(fields[PROCESSOR])
    return found


def _stack(memory: Memory, rsp: int, size: int) -> bytes:
    """The red zone, zeros if it cannot be read, and ``size`` bytes from ``rsp`` on; nothing if ``size`` is 0."""
    if not size:
        return b""
    return memory.some(rsp - RED_ZONE, RED_ZONE + size) or bytes(RED_ZONE) + memory.some(rsp, size)


def register_values(registers: Registers, pc: int) -> tuple[int, ...]:
    return tuple(pc if name == "rip" else int(getattr(registers, name)) for name in _ORDER)


def shown(registers: Registers, held: Held, patches: Places, memory: Memory) -> int:
    """The address in the program's own code at which a stopped thread is; also if it is in a patch, or in a function
    that a patch has called."""
    if not held.in_arena(registers.rip):
        return int(registers.rip)
    found = patches.stands_for(registers.rip)
    if found is None:
        stack = memory.some(registers.rsp & -8, _DEEPEST)  # fewer bytes where the stack begins
        words = (word for (word,) in struct.iter_unpack("<Q", stack[: len(stack) & -8]) if held.in_arena(word))
        found = next((at for word in words if (at := patches.stands_for(word)) is not None), None)
    return int(registers.rip) if found is None else found


def identity(thread: Thread, number: int, memory: Memory) -> int:
    """The thread's identity, as probes of the process compute it if one has met the thread, whose GS base points at its
    block then. ``number``: its tid in its own namespace."""
    with contextlib.suppress(OSError):
        content = memory.read(thread.registers.gs_base, _BLOCK.size) if thread.registers.gs_base else b""
        if len(content) == _BLOCK.size:
            owner, tid, birth = _BLOCK.unpack(content)
            if owner and tid == number:
                return (int(birth) << 22 | int(tid) & 0x3FFFFF) & (1 << 64) - 1  # gd_event, native/runtime/d/context.h
    return 1 << 63 | number
