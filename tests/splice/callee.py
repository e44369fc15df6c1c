# SPDX-License-Identifier: LGPL-2.1-or-later
"""A function for instruments that call one: it notes its arguments, and changes everything that it may change."""

from __future__ import annotations

from gilk.splice.planner import PatchContext

REGISTERS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9", "iid", "rax")
_NUMBERS = {"rdi": 7, "rsi": 6, "rdx": 2, "rcx": 1, "r8": 8, "r9": 9}
_CHANGED = (0, 1, 2, 6, 7, 8, 9, 10, 11)
_GARBAGE = 0x6BAD_6BAD
_BEHIND = 64  # bytes behind the claim thunk, where the runtime lies


def address(ground: PatchContext) -> int:
    return ground.host.claim + _BEHIND


def notes(ground: PatchContext) -> int:
    """The place in the thread's block of the notes, a word for each of REGISTERS."""
    return ground.host.counters + 0x100


def code(ground: PatchContext) -> bytes:
    at = notes(ground)
    given = {name: _note(number, at + 8 * REGISTERS.index(name)) for name, number in _NUMBERS.items()}
    words = b"".join(
        b"\x48\x8b\x44\x24" + bytes([8 + 8 * n]) + _note(0, at + 8 * REGISTERS.index(name))
        for n, name in enumerate(("iid", "rax"))
    )
    garbage = b"".join(_rex(0, n) + bytes([0xC7, 0xC0 | n & 7]) + _GARBAGE.to_bytes(4, "little") for n in _CHANGED)
    other_flags = b"\x48\x31\xc0\x48\xff\xc8"  # xor rax, rax; dec rax
    return b"".join(given.values()) + words + garbage + other_flags + b"\xc3"


def _note(register: int, offset: int) -> bytes:
    """The code of ``mov gs:[offset], register``."""
    return b"\x65" + _rex(register, 0) + bytes([0x89, (register & 7) << 3 | 4, 0x25]) + offset.to_bytes(4, "little")


def _rex(reg: int, base: int) -> bytes:
    return bytes([0x48 | (reg >> 3) << 2 | base >> 3])
