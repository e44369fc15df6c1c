# SPDX-License-Identifier: LGPL-2.1-or-later
"""An assembler of the allowed forms of instructions, and the allocation of values in the frame."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from gilk.lang.to_kernel.forms import ARGUMENTS, BY_NAME, RAX, Operand
from gilk.lang.to_kernel.helpers import HELPERS
from gilk.lang.to_kernel.refused import NotInKernel
from gilk.values import dataclass

HEAD = 128  # bytes at the start of a frame with the event: struct ilk_d_event, native/abi/ilk_d_abi.h
LARGEST_FRAME = 8192
WORD = 8
_MASK = (1 << 64) - 1
_NAMES = ("rax", "rcx", "rdx", "", "", "", "rsi", "", "r8", "r9")


@dataclass(frozen=True, slots=True)
class Slot:
    """A word of the frame, by its offset."""

    at: int


class KernelFrame:
    """The allocation of a frame: the room that is taken last is given back first. ``most``: the most bytes that were in
    use at once.
    """

    def __init__(self, start: int = HEAD) -> None:
        self._at = self.most = start

    def take(self, size: int) -> int:
        """The offset of ``size`` new bytes, rounded up to words, which are not given back. Raises NotInKernel."""
        place, self._at = self._at, self._at + (size + WORD - 1 & -WORD)
        self.most = max(self.most, self._at)
        if self.most > LARGEST_FRAME:
            raise NotInKernel(f"a clause that keeps more than {LARGEST_FRAME - HEAD} bytes of values")
        return place

    @contextmanager
    def room(self, size: int = WORD) -> Iterator[int]:
        """The offset of ``size`` new bytes, which are given back at the end of the block. Raises NotInKernel."""
        before = self._at
        yield self.take(size)
        self._at = before


class Label:
    """A place to which branches before it lead."""

    def __init__(self) -> None:
        self.branches: list[int] = []  # the ends of their displacements


class FormCode:
    """A sequence of instructions."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def __bytes__(self) -> bytes:
        return bytes(self._bytes)

    def __len__(self) -> int:
        return len(self._bytes)

    def emit(self, name: str, *operands: int) -> None:
        """Add an instruction of the form called ``name``. ``operands``: an offset in the frame, a number, or both in
        this order.
        """
        form = BY_NAME[name]
        self._bytes += form.code
        if form.operand is Operand.WIDE:
            self._bytes += struct.pack("<Q", operands[0] & _MASK)
        else:
            self._bytes += b"".join(struct.pack("<I", one & 0xFFFFFFFF) for one in operands)

    def branch(self, name: str, label: Label) -> None:
        """Add a branch, ``jmp``, ``jz`` or ``jnz``, to a label that comes later."""
        self.emit(name, 0)
        label.branches.append(len(self._bytes))

    def place(self, label: Label) -> None:
        for end in label.branches:
            self._bytes[end - 4 : end] = struct.pack("<I", len(self._bytes) - end)

    def call(self, helper: str, *arguments: int | Slot) -> None:
        """Add a call of a helper. Its result is in rax; no other register keeps its value."""
        for register, argument in zip(ARGUMENTS, arguments, strict=False):
            name = _NAMES[register]
            if isinstance(argument, Slot):
                self.emit(f"mov {name}, frame", argument.at)
            else:
                self.emit(f"mov {name}, imm", argument)
        self.emit("call", HELPERS[helper].number)

    def constant(self, value: int, register: int = RAX) -> None:
        """Load a constant, of 64 bits in rax, or of 32 bits in another register."""
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
