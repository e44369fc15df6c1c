# SPDX-License-Identifier: LGPL-2.1-or-later
"""A list of system calls that a thread of the target makes by itself, one after the other.

If the tracer made it make one at a time, each would cost four switches between tracer and thread. Here a loop in a page
of its own takes the calls from a list in another page, and stores their results there; after the last call, or the
first that fails, the thread sends itself a signal, at which it stops. If it is not traced any more, it goes back to
where it was by rt_sigreturn(2) (haven.py).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from gilk.targets.memory import Memory
from gilk.values import dataclass

#: SIGURG: the tracer replaces or drops it on delivery; to a program whose tracer has gone it does nothing.
STAND_IN: Final = 23
_ENTRY = struct.Struct("<7Qq")  # number, six arguments, result
MOST: Final = 4096 // _ENTRY.size
_FAILED: Final = -4096  # initial result; results between this and 0 are errors (syscall(2))

#: rbx: the list; r12: the number of calls. The loop clobbers registers freely: the borrowed thread's own are kept
#: elsewhere.
LOOP: Final = b"".join(
    (
        bytes.fromhex("49 ff cc"),  # next: dec r12
        bytes.fromhex("78 2d"),  # js done
        bytes.fromhex("48 8b 03"),  # mov rax, [rbx]
        bytes.fromhex("48 8b 7b 08"),  # mov rdi, [rbx + 8]
        bytes.fromhex("48 8b 73 10"),  # mov rsi, [rbx + 16]
        bytes.fromhex("48 8b 53 18"),  # mov rdx, [rbx + 24]
        bytes.fromhex("4c 8b 53 20"),  # mov r10, [rbx + 32]
        bytes.fromhex("4c 8b 43 28"),  # mov r8, [rbx + 40]
        bytes.fromhex("4c 8b 4b 30"),  # mov r9, [rbx + 48]
        bytes.fromhex("0f 05"),  # syscall
        bytes.fromhex("48 89 43 38"),  # mov [rbx + 56], rax
        bytes.fromhex("48 83 c3 40"),  # add rbx, 64
        bytes.fromhex("48 3d 01 f0 ff ff"),  # cmp rax, -4095
        bytes.fromhex("72 ce"),  # jb next
        bytes.fromhex("b8 27 00 00 00 0f 05"),  # done: mov eax, getpid; syscall
        bytes.fromhex("89 c7"),  # mov edi, eax
        bytes.fromhex("b8 ba 00 00 00 0f 05"),  # mov eax, gettid; syscall
        bytes.fromhex("89 c6"),  # mov esi, eax
        bytes.fromhex("ba 17 00 00 00"),  # mov edx, STAND_IN
        bytes.fromhex("b8 ea 00 00 00 0f 05"),  # mov eax, tgkill; syscall
        bytes.fromhex("b8 0f 00 00 00 0f 05"),  # mov eax, rt_sigreturn; syscall
        bytes.fromhex("0f 0b"),  # ud2
    )
)
END: Final = len(LOOP) - 9  # rip after the signal; rt_sigreturn follows

Call = tuple[int, ...]


@dataclass(frozen=True)
class CallList:
    """The addresses in the target of the loop, and of a page for the list."""

    loop: int
    page: int

    @property
    def end(self) -> int:
        return self.loop + END

    def write(self, memory: Memory, calls: Sequence[Call]) -> None:
        """Write the list, of at most MOST calls, with results that say "not made". Raises OSError."""
        entries = [(*call, *(0,) * (7 - len(call))) for call in calls]
        mask = (1 << 64) - 1
        memory.write(self.page, b"".join(_ENTRY.pack(*(word & mask for word in entry), _FAILED) for entry in entries))

    def results(self, memory: Memory, count: int) -> list[int]:
        """The results of the calls that were made, in their order; if one failed, its result, -errno, is the last."""
        made, content = [], memory.read(self.page, count * _ENTRY.size)
        for entry in _ENTRY.iter_unpack(content[: len(content) // _ENTRY.size * _ENTRY.size]):
            if entry[7] == _FAILED:
                break
            made.append(entry[7])
        return made
