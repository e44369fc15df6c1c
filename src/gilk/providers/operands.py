# SPDX-License-Identifier: LGPL-2.1-or-later
"""Translates operands in the assembler's syntax, as in ``-4@%edi`` or ``8@-8(%rbp,%rax,8)``, to expressions that fetch
them at a probe.

The number before the @ is the size in bytes, negative for a signed number; an f after it means a floating-point number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from gilk.lang.ir import Binary, Constant, Convert, Expression, Peek
from gilk.lang.machine import Reg
from gilk.lang.types import ALIASES, UINT64, Integer, wrapped

#: The address of a symbol at run time; None if it is unknown or not unique.
Symbol = Callable[[str], int | None]

_SPLIT = re.compile(r"(?:[^\s(]|\([^)]*\))+")
_SIZED = re.compile(r"(?:(-?)([1248])@)?(.+)\Z", re.DOTALL)
_NUMBER = r"-?(?:0x[0-9a-f]+|\d+)"
_LITERAL = re.compile(rf"\$({_NUMBER})\Z", re.IGNORECASE)
_MEMORY = re.compile(r"([^()%$]*)(?:\(\s*(?:%(\w+))?\s*(?:,\s*%(\w+)\s*)?(?:,\s*([1248])\s*)?\))?\Z")
_TERM = re.compile(rf"\s*([+-]?)\s*(?:({_NUMBER})|([A-Za-z_.][\w.$@]*))", re.IGNORECASE)


_LONGEST = 4096  # characters of all operands: an assembler writes no longer ones


def _registers() -> dict[str, tuple[str, int, int]]:
    """For each register name: the whole register, the size of the named part in bytes, and the part's offset in
    bytes."""
    found: dict[str, tuple[str, int, int]] = {}
    for name in ("ax", "bx", "cx", "dx"):
        low = name[0]
        found |= {f"r{name}": (f"r{name}", 8, 0), f"e{name}": (f"r{name}", 4, 0), name: (f"r{name}", 2, 0)}
        found |= {f"{low}l": (f"r{name}", 1, 0), f"{low}h": (f"r{name}", 1, 1)}
    for name in ("si", "di", "bp", "sp"):
        found |= {f"r{name}": (f"r{name}", 8, 0), f"e{name}": (f"r{name}", 4, 0), name: (f"r{name}", 2, 0)}
        found[f"{name}l"] = (f"r{name}", 1, 0)
    for number in range(8, 16):
        found |= {f"r{number}{end}": (f"r{number}", size, 0) for end, size in (("", 8), ("d", 4), ("w", 2), ("b", 1))}
    return found


_REGISTERS = _registers()


def operands(text: str, symbol: Symbol, here: int | None = None) -> tuple[Expression | None, ...]:
    """The value of each operand; None for one that cannot be fetched. ``here``: the address of the probe if ``symbol``
    gives link-time addresses, None if it gives those at run time. With link-time addresses, only operands relative to
    RIP may have symbols."""
    return tuple(_operand(found[0], symbol, here) for found in _SPLIT.finditer(text[:_LONGEST]))


def _operand(text: str, symbol: Symbol, here: int | None) -> Expression | None:
    sized = _SIZED.match(text)
    if sized is None:
        return None
    size, place = int(sized[2] or 8), sized[3]
    if literal := _LITERAL.match(place):
        value = _number(literal[1])
        return None if value is None else _constant(value, _type(size, bool(sized[1])))
    if place.startswith("%"):
        return _register(place[1:], size, bool(sized[1]))
    address = _address(place, symbol, here)
    return None if address is None else Peek(_type(size, bool(sized[1])), address)


def _type(size: int, signed: bool) -> Integer:
    found = ALIASES[f"{'' if signed else 'u'}int{8 * size}_t"]
    assert isinstance(found, Integer)
    return found


def _constant(value: int, type_: Integer = UINT64) -> Constant:
    return Constant(type_, wrapped(value, type_))


def _number(text: str) -> int | None:
    """The value of a number; a leading 0 means octal, as to an assembler. None if it is malformed."""
    digits = text.removeprefix("-")
    octal = digits.startswith("0") and digits.isdigit()
    try:
        return int(text, 8) if octal else int(text, 0)
    except ValueError:
        return None


def _register(name: str, size: int, signed: bool) -> Expression | None:
    known = _REGISTERS.get(name)
    if known is None:
        return None
    whole, there, first = known
    shifted = Binary(UINT64, ">>", Reg(whole), _constant(8 * first)) if first else Reg(whole)
    return Convert(_type(min(size, there), signed), shifted)


def _address(place: str, symbol: Symbol, here: int | None) -> Expression | None:
    found = _MEMORY.match(place)
    if found is None or (not found[1] and found[2] is None and found[3] is None):
        return None
    displacement = _displacement(found[1], symbol)
    relative = found[2] == "rip"
    if displacement is None or (relative and (found[3] or _is_number(found[1]))):
        return None
    total: Expression = _constant(displacement)
    if here is not None and relative:
        total = Binary(UINT64, "+", Reg("rip"), _constant(displacement - here))
    elif here is not None and not _is_number(found[1]):
        return None
    for name, scale in ((None if relative else found[2], "1"), (found[3], found[4] or "1")):
        if name is not None:
            known = _REGISTERS.get(name)
            if known is None or known[1] != 8:
                return None
            total = Binary(UINT64, "+", total, Binary(UINT64, "*", Reg(known[0]), _constant(int(scale))))
    return total


def _is_number(text: str) -> bool:
    return all(not name for _, _, name in _terms(text))


def _displacement(text: str, symbol: Symbol) -> int | None:
    """The value of a sum of numbers and symbols, 0 if it is empty; None if it is malformed or a symbol is unknown."""
    total = 0
    if _TERM.sub("", text).strip():
        return None
    for sign, number, name in _terms(text):
        value = _number(number) if number else symbol(name.partition("@")[0])
        if value is None:
            return None
        total += -value if sign == "-" else value
    return total


def _terms(text: str) -> Iterator[tuple[str, str, str]]:
    return ((found[1], found[2] or "", found[3] or "") for found in _TERM.finditer(text))
