# SPDX-License-Identifier: LGPL-2.1-or-later
"""Assembles instructions of the forms that there are, and keeps room in the frame for values between them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from gilk.lang.to_kernel.forms import ARGUMENTS, BY_NAME, RAX, Operand
from gilk.lang.to_kernel.helpers import HELPERS
from gilk.lang.to_kernel.refused import NotInKernel
from gilk.values import dataclass

HEAD = 128  # bytes at the start of a frame, which tell of the event: struct ilk_d_event, native/abi/ilk_d_abi.h
LARGEST_FRAME = 8192
WORD = 8
_MASK = (1 << 64) - 1
_NAMES = ("rax", "rcx", "rdx", "", "", "", "rsi", "", "r8", "r9")


@dataclass(frozen=True, slots=True)
class Slot:
    """A word of the frame, by its place."""

    at: int


class KernelFrame:
    """Room in a frame: what is taken last is given back first. ``most``: the bytes that were ever in use."""

    def __init__(self, start: int = HEAD) -> None:
        self._at = self.most = start

    def take(self, size: int) -> int:
        """A place of so many bytes, in whole words, which is not given back. Raises NotInKernel."""
        place, self._at = self._at, self._at + (size + WORD - 1 & -WORD)
        self.most = max(self.most, self._at)
        if self.most > LARGEST_FRAME:
            raise NotInKernel(f"a clause that keeps more than {LARGEST_FRAME - HEAD} bytes of values")
        return place

    @contextmanager
    def room(self, size: int = WORD) -> Iterator[int]:
        """The same, given back at the end."""
        before = self._at
        yield self.take(size)
        self._at = before


class Label:
    """A place that branches before it lead to."""

    def __init__(self) -> None:
        self.branches: list[int] = []  # where their displacements end


class FormCode:
    """Instructions, one behind the other."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def __bytes__(self) -> bytes:
        return bytes(self._bytes)

    def __len__(self) -> int:
        return len(self._bytes)

    def emit(self, name: str, *operands: int) -> None:
        """An instruction of the form of that name; ``operands``: a place in the frame, a number, or both in order."""
        form = BY_NAME[name]
        self._bytes += form.code
        if form.operand is Operand.WIDE:
            self._bytes += struct.pack("<Q", operands[0] & _MASK)
        else:
            self._bytes += b"".join(struct.pack("<I", one & 0xFFFFFFFF) for one in operands)

    def branch(self, name: str, label: Label) -> None:
        """``jmp``, ``jz`` or ``jnz``, to a label that comes later."""
        self.emit(name, 0)
        label.branches.append(len(self._bytes))

    def place(self, label: Label) -> None:
        for end in label.branches:
            self._bytes[end - 4 : end] = struct.pack("<I", len(self._bytes) - end)

    def call(self, helper: str, *arguments: int | Slot) -> None:
        """Its result is in rax; nothing else is kept in a register."""
        for register, argument in zip(ARGUMENTS, arguments, strict=False):
            name = _NAMES[register]
            if isinstance(argument, Slot):
                self.emit(f"mov {name}, frame", argument.at)
            else:
                self.emit(f"mov {name}, imm", argument)
        self.emit("call", HELPERS[helper].number)

    def constant(self, value: int, register: int = RAX) -> None:
        """All 64 bits of it, in rax; in another, where 32 will do."""
        if 0 <= value < 1 << 32:
            self.emit(f"mov {_NAMES[register]}, imm", value)
        else:
            self.emit("mov rax, wide", value)

    def keep(self, at: int) -> None:
        """Store rax in a word of the frame."""
        self.emit("store 8", at)

    def recall(self, at: int) -> None:
        """Load rax from a word of the frame."""
        self.emit("mov rax, frame", at)
