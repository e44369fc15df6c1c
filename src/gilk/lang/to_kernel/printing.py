# SPDX-License-Identifier: LGPL-2.1-or-later
"""The state that the printers of one clause share. Integers are kept in registers as 64 bits of the same value."""

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
    """The program's constants: texts that end with a NUL, each of which is stored once."""

    data: bytearray = field(default_factory=lambda: bytearray(b"\0"))
    _known: dict[bytes, int] = field(default_factory=lambda: {b"": 0})

    def place(self, text: bytes) -> int:
        """The offset of a text, which is added if it is new."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = len(self.data)
            self.data += text + b"\0"
        return found


@dataclass(frozen=True, slots=True)
class Room:
    """A place of ``size`` bytes in the frame."""

    at: int
    size: int


@dataclass
class Printing:
    """The state of printing. ``this``: the offset of clause-local variables in the frame. ``fault``: the label at which
    code goes on after a failure.

    ``longest``: the bytes of the longest provider, module, function and name of the probes, with its NUL. ``bound``:
    the places of bound values.
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
        """Print code that extends rax from the low bits of the type to a value of the type."""
        size, signed = width(type_)
        if size < 8:
            self.code.emit(f"extend {'s' if signed else 'u'}{8 * size}")

    def load(self, type_: Type, at: int) -> None:
        """Print code that loads the value at an offset of the frame into rax."""
        size, signed = width(type_)
        if size == 8:
            self.code.recall(at)
        else:
            self.code.emit(f"load {'s' if signed else 'u'}{8 * size}", at)

    def fails(self) -> None:
        """Print code that goes to ``fault`` if the helper has returned 0."""
        self.code.emit("test eax")
        self.code.branch("jz", self.fault)


def width(type_: Type) -> tuple[int, bool]:
    """The bytes of a type, and whether it is signed. Raises NotInKernel."""
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
    """The value of a constant, in its type."""
    size, is_signed = width(node.type)
    return signed(node.value, size) if is_signed else node.value & (1 << 8 * size) - 1


def immediate(node: ir.Expression) -> int | None:
    """The value of a constant that fits a signed immediate of 32 bits; None for other expressions."""
    found = number(node) if isinstance(node, ir.Constant) else 1 << 31
    return found if -(1 << 31) <= found < 1 << 31 else None
