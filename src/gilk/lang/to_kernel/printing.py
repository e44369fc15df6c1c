# SPDX-License-Identifier: LGPL-2.1-or-later
"""The state that the printers of one clause share, and how integers lie in registers: as 64 bits of the same value."""

from __future__ import annotations

from dataclasses import field

from gilk.lang import ir
from gilk.lang.nulls import Nulls
from gilk.lang.to_kernel.code import FormCode, KernelFrame, Label
from gilk.lang.to_kernel.refused import NotInKernel
from gilk.lang.types import Array, Enumeration, Integer, Pointer, Record, Type, signed
from gilk.values import dataclass

GLOBALS_START = 512  # bytes at the start of the globals that are not the program's (lang/d/unit.py)


@dataclass
class Texts:
    """The program's constants: texts that end with a zero, each of which is there once."""

    data: bytearray = field(default_factory=lambda: bytearray(b"\0"))
    _known: dict[bytes, int] = field(default_factory=lambda: {b"": 0})

    def place(self, text: bytes) -> int:
        """Where it begins."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = len(self.data)
            self.data += text + b"\0"
        return found


@dataclass(frozen=True, slots=True)
class Room:
    """A place in the frame: ``size`` bytes."""

    at: int
    size: int


@dataclass
class Printing:
    """``this``: where clause-local variables lie in the frame. ``fault``: where code goes on that has failed.
    ``longest``: bytes of the longest of the probes' providers, modules, functions and names, with its zero.
    """

    strsize: int
    nulls: Nulls
    texts: Texts
    longest: tuple[int, int, int, int]
    this: int
    frame: KernelFrame
    code: FormCode = field(default_factory=FormCode)
    fault: Label = field(default_factory=Label)
    bound: dict[int, Room] = field(default_factory=dict)

    def normalise(self, type_: Type) -> None:
        """Make rax a value of the type, of whatever its low bits are."""
        size, signed = width(type_)
        if size < 8:
            self.code.emit(f"extend {'s' if signed else 'u'}{8 * size}")

    def load(self, type_: Type, at: int) -> None:
        """The value that lies in the frame there."""
        size, signed = width(type_)
        if size == 8:
            self.code.recall(at)
        else:
            self.code.emit(f"load {'s' if signed else 'u'}{8 * size}", at)

    def fails(self) -> None:
        """Go on only if the helper that was called gave anything but 0."""
        self.code.emit("test eax")
        self.code.branch("jz", self.fault)


def width(type_: Type) -> tuple[int, bool]:
    """Bytes, and whether it is signed. Raises NotInKernel."""
    match type_:
        case Integer():
            return type_.size, type_.signed
        case Enumeration():
            return 4, True
        case Pointer():
            return 8, False
        case Array() | Record():
            raise NotInKernel("an array or a struct as a whole")
    raise NotInKernel(f"a value of type {type(type_).__name__.lower()}")


def number(node: ir.Constant) -> int:
    """The value of a constant, as its type has it."""
    size, is_signed = width(node.type)
    return signed(node.value, size) if is_signed else node.value & (1 << 8 * size) - 1


def immediate(node: ir.Expression) -> int | None:
    """The same, where 32 bits hold it with its sign; None of what is no constant."""
    found = number(node) if isinstance(node, ir.Constant) else 1 << 31
    return found if -(1 << 31) <= found < 1 << 31 else None
