# SPDX-License-Identifier: LGPL-2.1-or-later
"""The frame of a function at an instruction, by the image's unwind table."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import pairwise

from gilk.analysis.graph import REGISTERS
from gilk.engines.dtrace.local_expressions import Unplaced, Why, parts, plus
from gilk.image.cfi import HARDWARE_NUMBERS, FrameRule, How
from gilk.image.dwarf.locations import FRAME_BASE
from gilk.image.dwarf.variables import FunctionScope
from gilk.image.model import Image
from gilk.image.unwind import Unwind, unwind
from gilk.lang.ir import Expression, Peek
from gilk.lang.machine import Reg
from gilk.lang.types import UINT64, signed

_CALL_FRAME_CFA, _REG0 = 0x9C, 0x50
_RSP = 4


class LocalFrame:
    """The frame at ``address``, which is link-time, in the function of ``scope`` (local_expressions.HasFrame)."""

    def __init__(self, image: Image, scope: FunctionScope, address: int) -> None:
        self._image, self._scope, self._address = image, scope, address

    @cached_property
    def _table(self) -> Unwind:
        return unwind(self._image)

    def start(self) -> Expression:
        """The canonical frame address. Raises Unplaced."""
        rule = self._table.rule(self._address)
        if rule is None or rule.how not in (How.PLAIN, How.DEREF):
            raise Unplaced(Why.NO_FRAME)
        base = plus(Reg(REGISTERS[rule.base]), rule.offset)
        return base if rule.how is How.PLAIN else plus(Peek(UINT64, base), rule.more)

    def base(self) -> Expression:
        """The address from which expressions count: the frame address, or a register while the function's own
        instructions run. Raises Unplaced."""
        told = self._scope.function.attributes.get(FRAME_BASE)
        if told == bytes([_CALL_FRAME_CFA]):
            return self.start()
        if isinstance(told, bytes) and len(told) == 1 and 0 <= told[0] - _REG0 < len(HARDWARE_NUMBERS):
            return plus(self.start(), -self._distance(HARDWARE_NUMBERS[told[0] - _REG0]))
        raise Unplaced(Why.NO_FRAME)

    def _distance(self, register: int) -> int:
        """The distance of the frame address above a register, once the function has made its frame. Raises Unplaced if
        that is not certain: the stack pointer may be moved further for a call."""
        bytes_ = Counter[int]()
        for low, high in self._scope.ranges:
            for start, end, rule in _rules(self._table, low, high):
                if rule.how is How.PLAIN and rule.base == register:
                    bytes_[rule.offset] += end - start
        if not bytes_ or max(bytes_) != bytes_.most_common(1)[0][0]:
            raise Unplaced(Why.NO_FRAME)
        return max(bytes_)

    def is_made(self, register: int) -> bool | None:
        """Whether the function has set the register, RSP or RBP, for its frame, and has not given it back; None if it
        does not find its frame by it. Raises Unplaced."""
        try:
            distance = self._distance(register)
        except Unplaced:
            if register == _RSP:
                raise
            return None
        return self.found_by(self._address) == (register, distance)

    def offset(self, address: Expression) -> int | None:
        """The distance of an address from the frame address; None if it does not lie in the frame."""
        try:
            start, above = parts(self.start())
        except Unplaced:
            return None
        base, distance = parts(address)
        if base is None or base != start:
            return None
        return signed(distance - above)

    def found_by(self, address: int) -> tuple[int, int] | None:
        """The register from which the frame is found at another instruction, and its distance below the frame
        address."""
        rule = self._table.rule(address)
        return (rule.base, rule.offset) if rule is not None and rule.how is How.PLAIN else None


def _rules(table: Unwind, low: int, high: int) -> list[tuple[int, int, FrameRule]]:
    """The rules in [low, high), each with the addresses from and to which it holds."""
    at = [low, *_starts(table, low, high), high]
    found = ((start, end, table.rule(start)) for start, end in pairwise(at) if start < end)
    return [(start, end, rule) for start, end, rule in found if rule is not None]


def _starts(table: Unwind, low: int, high: int) -> list[int]:
    first, last = table.starts.searchsorted([max(low - table.base, 0), max(high - table.base, 0)]).tolist()
    return [table.base + start for start in table.starts[first:last].tolist() if table.base + start > low]
