# SPDX-License-Identifier: LGPL-2.1-or-later
"""Expressions of DWARF as expressions of registers; the numbers are worked out by hand from DWARF 5, section 2.5."""

from __future__ import annotations

from typing import Any

import pytest

from gilk.engines.dtrace.local_expressions import Unplaced, Why, placed
from gilk.lang import ir
from gilk.lang.machine import Reg
from gilk.lang.types import UINT64, Integer, wrapped

WORD = (1 << 64) - 1
STATE = {"rax": 40, "rcx": 7, "rdi": -2 & WORD, "rsp": 0x7000, "rbp": 0x7100}
CFA = 0x7010
OPERATORS = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "&": lambda a, b: a & b,
    "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
    "<": lambda a, b: a < b, "==": lambda a, b: a == b, ">=": lambda a, b: a >= b,
}  # fmt: skip


class Frame:
    def start(self) -> ir.Expression:
        return ir.Binary(UINT64, "+", Reg("rsp"), ir.Constant(UINT64, 16))

    base = start


def value(node: Any) -> int:
    match node:
        case Reg(name=name):
            return STATE[name]
        case ir.Constant(value=number):
            found = number
        case ir.Convert(operand=operand):
            found = value(operand)
        case ir.Unary(operator=operator, operand=operand):
            found = -value(operand) if operator == "-" else ~value(operand)
        case ir.Binary(operator=operator, left=left, right=right):
            found = int(OPERATORS[operator](value(left), value(right)))
    assert isinstance(node.type, Integer)
    return wrapped(found, node.type)


@pytest.mark.parametrize(
    ("expression", "address", "number"),
    [
        ("50", None, 40),  # reg0
        ("9000", None, 40),  # regx 0
        ("9e0403020100", None, 0x010203),  # implicit_value
        ("31 9f", None, 1),  # lit1, stack_value
        ("09ff 9f", None, WORD),  # const1s -1
        ("70 7f 9f", None, 39),  # breg0 -1
        ("77 08", 0x7008, None),  # breg7 8
        ("91 70", CFA - 16, None),  # fbreg -16
        ("9c 23 08", CFA + 8, None),  # call_frame_cfa, plus_uconst 8
        ("03 0010000000000000", 0x555000, None),  # addr
        ("70 00 72 00 22 9f", None, 47),  # rax + rcx
        ("70 00 72 00 1c 9f", None, 33),  # rax - rcx
        ("70 00 12 1e 9f", None, 1600),  # dup, mul
        ("70 00 34 24 9f", None, 640),  # << 4
        ("75 00 31 26 9f", None, WORD),  # rdi = -2; >> 1, with its sign
        ("75 00 31 25 9f", None, (WORD - 1) >> 1),
        ("75 00 72 00 2d 9f", None, 1),  # -2 < 7
        ("70 00 1f 9f", None, -40 & WORD),
        ("70 00 20 9f", None, ~40 & WORD),
        ("70 00 72 00 16 1c 9f", None, -33 & WORD),  # swap
        ("31 32 33 17 1c 9f", None, -1 & WORD),  # rot puts the third under the first two: 3 1 2
        ("31 32 33 15 02 9f", None, 1),  # pick 2
        ("71 00 06 9f", None, None),  # what a pointer leads to is in memory
    ],
)
def test_expressions_have_the_places_that_dwarf_defines(
    expression: str, address: int | None, number: int | None
) -> None:
    if expression.startswith("71"):
        found = placed(bytes.fromhex(expression), Frame(), 0)
        assert (found.address, found.value) == (Reg("rdx"), None)
        return
    found = placed(bytes.fromhex(expression), Frame(), 0x554000)
    assert (found.address and value(found.address), found.value and value(found.value)) == (address, number)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("a30155 9f", Why.ONLY_IN_CALLER),
        ("f30155 9f", Why.ONLY_IN_CALLER),
        ("50 9304 51 9304", Why.IN_PIECES),
        ("70 00 9f 9304", Why.IN_PIECES),
        ("9304", Why.IN_PIECES),
        ("61", Why.IN_VECTOR),
        ("0e 0800000000000000 e0", Why.OF_THREAD),
        ("f2 00000000 00", Why.OPTIMIZED_OUT),
        ("70 00 f7 20 9f", Why.COMPUTED),  # convert
        ("70 00 06 23 01 9f", Why.COMPUTED),  # memory that may not be there, plus 1
        ("77 807e", Why.BELOW_STACK),  # breg7 -256
        ("22", Why.COMPUTED),  # nothing to add
        ("08", Why.COMPUTED),  # cut off
        ("31" * 40 + "9f", Why.COMPUTED),  # too deep
        ("96" * 300, Why.COMPUTED),  # too long
    ],
)
def test_expressions_that_give_no_value_are_refused_by_name(expression: str, why: Why) -> None:
    with pytest.raises(Unplaced) as error:
        placed(bytes.fromhex(expression), Frame(), 0)
    assert error.value.why is why
