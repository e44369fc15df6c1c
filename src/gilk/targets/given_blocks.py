# SPDX-License-Identifier: LGPL-2.1-or-later
"""Gives each thread a block while all stand still and no code has been changed yet.

A thread without a block asks the kernel for its numbers at its first hit (native/runtime/claim.c). If the program puts
itself under a filter of system calls during the session, the filter may kill the thread for that. The threads that are
there at the start need not ask.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Collection
from typing import Final

from gilk.targets.held import ArenaMap, Held
from gilk.targets.memory import Memory
from gilk.targets.namespaces import own_number
from gilk.targets.thread import Thread

#: struct gilk_control, native/abi/gilk_abi.h: version, blocks, first, stride.
_CONTROL: Final = struct.Struct("<8xI I 2Q")
_NEXT: Final = 80  # offset of ``next`` in it
_HEAD: Final = struct.Struct("<Q4I")  # struct gilk_block: owner, state, index, pid, tid
_HOLDER: Final = 264  # offset of ``holder`` in it
_IN_USE: Final = 1
_PAGE: Final = 4096
_WORD: Final = struct.Struct("<Q")
_ALL: Final = (1 << 64) - 1


def key_of(pid: int) -> int:
    """The key of a process, of which ``pid`` is its own number (claim.c, process_key)."""
    return ((pid + 1) * 0x9E3779B97F4A7C15 & _ALL) | 1


def write_key(pid: int, arena: ArenaMap, memory: Memory) -> None:
    """Write the key of a process into the key page of a new arena. Raises OSError."""
    memory.write(arena.base - _PAGE, _WORD.pack(key_of(own_number(pid))))


def give_blocks(pid: int, threads: Collection[Thread], held: Held, memory: Memory) -> None:
    """Give stopped threads of the process a block each, if no block has ever been in use: later, a forked child may be
    looking for one at this moment. Half of the blocks remain for threads that hit something. Raises OSError."""
    control = memory.read(held.data, _NEXT + _WORD.size)
    if len(control) <= _NEXT:
        return  # the process has gone
    _, blocks, first, stride = _CONTROL.unpack_from(control)
    chosen = _known(pid, threads)
    fits = first + blocks * stride <= held.data_size
    if not fits or len(chosen) > blocks // 2 or any(control[_NEXT:]):
        return
    key = key_of(own_number(pid))
    for index, thread in enumerate(chosen):
        block = held.data + first + index * stride
        memory.write(block + _HOLDER, _WORD.pack((thread.registers.fs_base + key) & _ALL))
        memory.write(block, _HEAD.pack(0, _IN_USE, index, pid, own_number(thread.tid)))
        thread.attach_block(block)
    memory.write(held.data + _NEXT, _WORD.pack(len(chosen)))


def _known(pid: int, threads: Collection[Thread]) -> list[Thread]:
    """The process's own threads with an FS base that no other thread has: by that a block's owner is known. A program
    that begins sets it later."""
    bases = Counter(thread.registers.fs_base for thread in threads)
    own = (thread for thread in threads if os.path.exists(f"/proc/{pid}/task/{thread.tid}"))
    return [thread for thread in own if thread.registers.fs_base and bases[thread.registers.fs_base] == 1]
