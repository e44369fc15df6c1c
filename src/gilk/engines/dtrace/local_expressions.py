# SPDX-License-Identifier: LGPL-2.1-or-later
"""Expressions of DWARF (version 5, section 2.5) as expressions of lang/ir.py, which compute the place of a variable, or
its value, of the registers at a probe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import Final, Protocol

from gilk.analysis.graph import REGISTERS
from gilk.image.cfi import HARDWARE_NUMBERS
from gilk.image.encoding import sleb, uleb
from gilk.image.memory import MALFORMED
from gilk.lang.ir import Binary, Constant, Convert, Expression, Peek, Unary
from gilk.lang.machine import Reg
from gilk.lang.types import ALIASES, INT, INT64, UINT64, Integer, signed
from gilk.values import dataclass

_WORD: Final = (1 << 64) - 1
_DEEPEST, _LONGEST = 32, 256  # numbers on the stack of an expression, and its bytes
_RED_ZONE = 128
RSP: Final = Reg("rsp")

_ADDR, _DEREF, _DUP, _DROP, _OVER, _PICK, _SWAP, _ROT = 0x03, 0x06, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17
_NEG, _NOT, _PLUS, _PLUS_UCONST, _SHRA, _NOP, _DEREF_SIZE = 0x1F, 0x20, 0x22, 0x23, 0x26, 0x96, 0x94
_LIT0, _REG0, _BREG0, _REGX, _FBREG, _BREGX, _CALL_FRAME_CFA = 0x30, 0x50, 0x70, 0x90, 0x91, 0x92, 0x9C
_IMPLICIT_VALUE, _STACK_VALUE = 0x9E, 0x9F
_CONSTANTS = {0x08 + n: (1 << n // 2, bool(n % 2)) for n in range(8)}
_CONSTU, _CONSTS = 0x10, 0x11
_OPERATORS = {0x1A: "&", 0x1C: "-", 0x1E: "*", 0x21: "|", 0x22: "+", 0x24: "<<", 0x25: ">>", 0x27: "^"}
_COMPARISONS = {0x29: "==", 0x2A: ">=", 0x2B: ">", 0x2C: "<=", 0x2D: "<", 0x2E: "!="}
_UNDERSTOOD = frozenset((*_OPERATORS, *_COMPARISONS, _NEG, _NOT, _PLUS_UCONST, _SHRA, _DEREF, _DEREF_SIZE))


class Why(StrEnum):
    """The reasons why a variable cannot be had at a probe; docs/d/README.md has a row for each."""

    NO_DEBUG_INFORMATION = "no-debug-information"
    NOT_IN_SCOPE = "not-in-scope"
    NOT_DECLARED_YET = "not-declared-yet"
    DECLARED_TWICE = "declared-twice"
    OPTIMIZED_OUT = "optimized-out"
    NOT_HERE = "not-available-here"
    NOT_STORED_YET = "not-stored-yet"
    ONLY_IN_CALLER = "only-in-the-caller"
    IN_PIECES = "in-pieces"
    IN_VECTOR = "in-a-vector-register"
    IN_REGISTER = "in-a-register"
    IN_MEMORY = "in-memory"
    OF_THREAD = "of-the-thread"
    COMPUTED = "computed-otherwise"
    NO_FRAME = "frame-unknown"
    BELOW_STACK = "below-the-stack"
    AFTER = "behind-an-instruction"


class Unplaced(Exception):
    def __init__(self, why: Why) -> None:
        super().__init__(why)
        self.why = why


_REFUSED = {
    **dict.fromkeys((0x93, 0x9D), Why.IN_PIECES), **dict.fromkeys((0xA3, 0xF3), Why.ONLY_IN_CALLER),
    **dict.fromkeys((0x9B, 0xE0), Why.OF_THREAD), **dict.fromkeys((0xA0, 0xF2), Why.OPTIMIZED_OUT),
}  # fmt: skip


class HasFrame(Protocol):
    """The frame at a probe."""

    def start(self) -> Expression:
        """The canonical frame address. Raises Unplaced."""
        ...

    def base(self) -> Expression:
        """The address from which the function's expressions count. Raises Unplaced."""
        ...


@dataclass(frozen=True, slots=True)
class PlacedLocal:
    """The place of a variable: the ``address`` of its memory, or else its ``value``, in 64 bits of which the lowest
    count. ``register``: the number of the register that it is in, by the hardware; None if the value is computed.
    ``by``: the numbers of the registers that the expression names, besides."""

    address: Expression | None = None
    value: Expression | None = None
    register: int | None = None
    by: frozenset[int] = frozenset()


def plus(value: Expression, number: int) -> Expression:
    """``value`` and a number added; sums of numbers are one number."""
    base, so_far = parts(value)
    total = so_far + number & _WORD
    if base is None:
        return Constant(UINT64, total)
    return Binary(UINT64, "+", base, Constant(UINT64, total)) if total else base


def parts(value: Expression) -> tuple[Expression | None, int]:
    """A sum as an expression, None if there is none, and a number."""
    match value:
        case Constant(value=number):
            return None, number
        case Binary(operator="+", left=left, right=Constant(value=number)):
            return left, number
    return value, 0


def pointer_to(address: Expression) -> Expression | None:
    """The address of the pointer from which an address is taken; None if it is not taken from memory."""
    base, _ = parts(address)
    match base:
        case Convert(operand=Peek(address=found)):
            return found
    return None


def register(number: int) -> Expression:
    """The register with that number in DWARF. Raises Unplaced."""
    if number >= len(HARDWARE_NUMBERS):
        raise Unplaced(Why.IN_VECTOR if 17 <= number <= 40 else Why.COMPUTED)
    return Reg(REGISTERS[HARDWARE_NUMBERS[number]])


def placed(expression: bytes, frame: HasFrame, bias: int) -> PlacedLocal:
    """The place that an expression tells. ``bias``: of the image, whose addresses are link-time. Raises Unplaced."""
    if len(expression) > _LONGEST:
        raise Unplaced(Why.COMPUTED)
    try:
        found = _whole(expression) or _computed(_Stack(expression, frame, bias))
    except (*MALFORMED, KeyError):
        raise Unplaced(Why.COMPUTED) from None
    base, distance = parts(found.address) if found.address is not None else (None, 0)
    if base == RSP and signed(distance) < -_RED_ZONE:
        raise Unplaced(Why.BELOW_STACK)
    return found


def _computed(stack: _Stack) -> PlacedLocal:
    found = stack.run()
    return replace(found, by=frozenset(stack.registers))


def _whole(expression: bytes) -> PlacedLocal | None:
    """The place, if a single instruction tells it that leaves nothing on the stack. Raises Unplaced, MALFORMED."""
    code = expression[0]
    if _REG0 <= code < _REG0 + 32 or code == _REGX:
        number, end = (code - _REG0, 1) if code != _REGX else uleb(expression, 1)
        if end != len(expression):
            raise Unplaced(_REFUSED.get(expression[end], Why.COMPUTED))
        return PlacedLocal(value=register(number), register=HARDWARE_NUMBERS[number])
    if code == _IMPLICIT_VALUE:
        size, at = uleb(expression, 1)
        if size > 8 or at + size != len(expression):
            raise Unplaced(Why.IN_PIECES if at + size < len(expression) else Why.COMPUTED)
        return PlacedLocal(value=Constant(UINT64, int.from_bytes(expression[at:], "little")))
    return None


class _Stack:
    """The run of an expression. Its methods raise Unplaced, and MALFORMED if it is cut off."""

    def __init__(self, expression: bytes, frame: HasFrame, bias: int) -> None:
        self._expression, self._frame, self._bias = expression, frame, bias
        self._at = 0
        self._values: list[Expression] = []
        self.registers: set[int] = set()  # those that the expression names, by the hardware's numbers
        self._peeks = False  # whether a value depends on memory that may not be there

    def run(self) -> PlacedLocal:
        while self._at < len(self._expression):
            code = self._expression[self._at]
            if code == _STACK_VALUE:
                return self._value()
            if code == _DEREF and self._expression[self._at + 1 :] == bytes([_STACK_VALUE]):
                return PlacedLocal(address=self._values.pop())
            self._at += 1
            self._step(code)
            if len(self._values) > _DEEPEST:
                raise Unplaced(Why.COMPUTED)
        return PlacedLocal(address=self._values.pop())

    def _value(self) -> PlacedLocal:
        if self._at + 1 != len(self._expression):
            raise Unplaced(_REFUSED.get(self._expression[self._at + 1], Why.COMPUTED))
        if self._peeks:
            raise Unplaced(Why.COMPUTED)
        return PlacedLocal(value=self._values.pop())

    def _step(self, code: int) -> None:
        pushed = self._pushed(code)
        if pushed is not None:
            self._values.append(pushed)
        elif code in _MOVED:
            _MOVED[code](self._values)
        elif code == _PICK:
            self._values.append(self._values[-1 - self._number(uleb)])
        elif code != _NOP:
            self._values.append(self._computed(code))

    def _number(self, read: Callable[[bytes, int], tuple[int, int]]) -> int:
        value, self._at = read(self._expression, self._at)
        return value

    def _bytes(self, size: int) -> bytes:
        found = self._expression[self._at : self._at + size]
        if len(found) < size:
            raise IndexError(size)
        self._at += size
        return found

    def _pushed(self, code: int) -> Expression | None:
        """The value that an instruction pushes without taking any from the stack; None for another instruction."""
        if _LIT0 <= code < _LIT0 + 32:
            return Constant(UINT64, code - _LIT0)
        if code in _CONSTANTS:
            size, signed = _CONSTANTS[code]
            return Constant(UINT64, int.from_bytes(self._bytes(size), "little", signed=signed) & _WORD)
        if code in (_CONSTU, _CONSTS):
            return Constant(UINT64, self._number(uleb if code == _CONSTU else sleb) & _WORD)
        if code == _ADDR:
            return Constant(UINT64, int.from_bytes(self._bytes(8), "little") + self._bias & _WORD)
        return self._based(code)

    def _based(self, code: int) -> Expression | None:
        """As _pushed(), for values that are found by a register or by the frame."""
        if _BREG0 <= code < _BREG0 + 32 or code == _BREGX:
            number = code - _BREG0 if code != _BREGX else self._number(uleb)
            named = register(number)
            self.registers.add(HARDWARE_NUMBERS[number])
            return plus(named, self._number(sleb))
        if code == _FBREG:
            return plus(self._frame.base(), self._number(sleb))
        return self._frame.start() if code == _CALL_FRAME_CFA else None

    def _computed(self, code: int) -> Expression:
        if code not in _UNDERSTOOD:
            raise Unplaced(_REFUSED.get(code, Why.COMPUTED))
        right = self._values.pop()
        if code == _PLUS_UCONST:
            return plus(right, self._number(uleb))
        if code in (_NEG, _NOT):
            return Unary(UINT64, "-" if code == _NEG else "~", right)
        if code in (_DEREF, _DEREF_SIZE):
            size = 8 if code == _DEREF else self._expression[self._at]
            self._at += code == _DEREF_SIZE
            self._peeks = True
            return Convert(UINT64, Peek(_unsigned(size), right))
        if code in _OPERATORS:
            left = self._values.pop()
            if code == _PLUS and isinstance(right, Constant):
                return plus(left, right.value)
            return Binary(UINT64, _OPERATORS[code], left, right)
        if code == _SHRA:
            return Convert(UINT64, Binary(INT64, ">>", Convert(INT64, self._values.pop()), Convert(INT64, right)))
        left = Convert(INT64, self._values.pop())
        return Convert(UINT64, Binary(INT, _COMPARISONS[code], left, Convert(INT64, right)))


def _unsigned(size: int) -> Integer:
    found = ALIASES[f"uint{8 * size}_t"]
    assert isinstance(found, Integer)
    return found


def _swap(values: list[Expression]) -> None:
    values[-1], values[-2] = values[-2], values[-1]


def _rotate(values: list[Expression]) -> None:
    values[-1], values[-2], values[-3] = values[-2], values[-3], values[-1]


#: Instructions that only move values.
_MOVED: dict[int, Callable[[list[Expression]], object]] = {
    _DUP: lambda values: values.append(values[-1]),
    _DROP: lambda values: values.pop(),
    _OVER: lambda values: values.append(values[-2]),
    _SWAP: _swap,
    _ROT: _rotate,
}
