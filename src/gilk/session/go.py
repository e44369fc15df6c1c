# SPDX-License-Identifier: LGPL-2.1-or-later
"""The places of arguments at the entry of functions of Go (src/cmd/compile/abi-internal.md of Go's sources).

Integers and pointers are handed on in registers, a word each, in the order of the parameters. Functions in assembly
take all of them on the stack, above the return address, as they lie in a struct; their symbols end in .abi0.
"""

from __future__ import annotations

from typing import Final

from gilk.arch import asm
from gilk.image.value_place import ArgumentPlace, ValuePlace

_REGISTERS: Final = (asm.RAX, asm.RBX, asm.RCX, asm.RDI, asm.RSI, asm.R8)
_WORD: Final = 8


def go_arguments(function: str) -> tuple[ArgumentPlace, ...]:
    """The places of the first six words of arguments at the function's entry."""
    if function.endswith(".abi0"):
        places = [ValuePlace(asm.RSP, _WORD * number, loaded=True) for number in range(1, len(_REGISTERS) + 1)]
    else:
        places = [ValuePlace(register, 0) for register in _REGISTERS]
    return tuple(ArgumentPlace(number, "", place) for number, place in enumerate(places))
