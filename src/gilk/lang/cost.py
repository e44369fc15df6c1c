# SPDX-License-Identifier: LGPL-2.1-or-later
"""An upper bound of the cost of code of lang/ir.py, computed from the tree like the facts.

The bound is for the longest way through a function in a thread that nothing disturbs: attempts that are repeated
because another thread has written meanwhile do not count. The representation has no loops. Loops of the runtime end
with a string, a key, the reach of a table or a stack, and lang/helper_costs.py has a formula for each. So there is
always a bound.

An operation is about one instruction; a division counts as `DIVISION` operations. The bound serves to refuse code for
the kernel before it runs; code in a process is never refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

from gilk.lang import ir, machine
from gilk.lang.data import Datum, Function, Kind
from gilk.lang.facts import LARGE_KEY, facts
from gilk.lang.helper_costs import DIVISION, HELPERS, Cost, CostLimits, copying
from gilk.lang.operations import OPERATIONS
from gilk.lang.runtime import Does
from gilk.lang.types import Array, Special, String, Type, is_scalar, size_of
from gilk.lang.walk import operands

_NONE = Cost()
_WORD = Cost(60, 8, 8, 8, calls=2)  # to read a word of the stack
_ENTERED = Cost(60, 10, 30)  # to set up a clause's context, check that the program is active, and end the clause
_COMPUTED = Cost(3)
_LOADED, _STORED = Cost(4, 2), Cost(4, 1, 1)


def cost(node: ir.Node, limits: CostLimits | None = None) -> Cost:
    """The bound for a node and all nodes below it; where there are two ways, the larger value of each component."""
    return _Costs(limits or CostLimits()).of(node)


def _sum(some: Iterable[Cost]) -> Cost:
    return reduce(Cost.__add__, some, _NONE)


class _Costs:
    def __init__(self, limits: CostLimits) -> None:
        self._limits = limits

    def of(self, node: ir.Node) -> Cost:
        own: Callable[[_Costs, Any], Cost] | None = _WHOLE.get(type(node))
        if own is not None:
            return own(self, node)
        return self._parts(node) + _OWN.get(type(node), _COMPUTED)

    def _parts(self, node: ir.Node) -> Cost:
        return _sum(map(self.of, operands(node)))

    def _size(self, type_: Type) -> int:
        return size_of(type_, self._limits.strsize)

    def _helper(self, name: str, size: int = 0, key: int = 0) -> Cost:
        return HELPERS[name](self._limits, size, key)

    # Expressions.

    def _either(self, node: ir.Conditional | ir.If) -> Cost:
        yes, no = (node.yes, node.no) if isinstance(node, ir.Conditional) else (node.then, node.otherwise)
        ways = (_sum(map(self.of, way)) if isinstance(way, tuple) else self.of(way) for way in (yes, no))
        return self.of(node.test) + _COMPUTED + Cost.dearer(*ways)

    def _binary(self, node: ir.Binary) -> Cost:
        own = _COMPUTED
        if isinstance(node.left.type, String):
            own = self._helper("gd_strcmp")
        elif node.operator in ("/", "%"):
            own = Cost(DIVISION + 6)
        return self._parts(node) + own

    def _convert(self, node: ir.Convert) -> Cost:
        if not isinstance(node.type, String):
            return self._parts(node) + _COMPUTED
        if isinstance(node.operand.type, Array):
            return self._parts(node) + self._helper("gd_alloca") + copying(node.operand.type.count)
        return self._parts(node) + self._helper("gd_alloca") + self._helper("gd_copyin_string", self._limits.strsize)

    def _field(self, node: ir.Field) -> Cost:
        room = _NONE if is_scalar(node.type) else self._helper("gd_alloca")
        return self._parts(node) + room + self._helper("gd_load", self._size(node.type))

    def _keyed(self, node: ir.Keyed) -> Cost:
        return self._key(node.keys, node.layout, node.key_size) + self._looked_up("gd_dynamic_load", node)

    def _looked_up(self, helper: str, node: ir.Keyed) -> Cost:
        room = _NONE if is_scalar(node.type) else self._helper("gd_alloca")
        return room + self._helper(helper, self._size(node.type), node.key_size)

    def _call(self, node: ir.Call | ir.Act) -> Cost:
        if isinstance(node, ir.Call) and isinstance(node.type, Special):
            return self._parts(node)  # _put counts the cost when it is put into a record or a key
        name, size = node.name if isinstance(node, ir.Call) else node.action, self._given(node)
        own = _sum(self._helper(each, size) for each in OPERATIONS[name].functions)
        return self._parts(node) + _COMPUTED + _COMPUTED + own

    def _given(self, node: ir.Call | ir.Act) -> int:
        """The number of bytes that the operation handles; all scratch memory if that is not known."""
        sizes = [each.value for each in node.arguments if isinstance(each, ir.Constant) and each.value >= 0]
        whole = len(sizes) == len(node.arguments)
        return min(max(sizes, default=0), self._limits.scratch) if whole else self._limits.scratch

    def _peek(self, node: ir.Peek) -> Cost:
        return self._parts(node) + self._helper("gd_load", node.type.size)

    def _ask(self, node: ir.Ask) -> Cost:
        return self._parts(node) + Cost(10, calls=1)

    # Assignment.

    def _assign(self, node: ir.Assign) -> Cost:
        read = self.of(node.target) if node.operator else self._parts(node.target)
        divided = Cost(DIVISION + 6) if node.operator in ("/", "%") else _NONE
        return read + self.of(node.value) + _COMPUTED + divided + self._written(node.target)

    def _step(self, node: ir.Step) -> Cost:
        return self.of(node.target) + _COMPUTED + self._written(node.target)

    def _written(self, target: ir.Target) -> Cost:
        size = self._size(target.type)
        match target:
            case ir.Keyed():
                return self._written_key(target)
            case ir.Field(bits=bits):
                return self._helper("gd_assign", size) + (self._helper("gd_load", size) if bits else _NONE)
            case ir.Part(whole=ir.Keyed() as whole):
                return self._written_key(whole) + self._stored(target.type, size) + self.of(whole)
        return self._stored(target.type, size)

    def _written_key(self, target: ir.Keyed) -> Cost:
        key = self._key(target.keys, target.layout, target.key_size)
        text = self._helper("gd_put_string", self._size(target.type)) if isinstance(target.type, String) else _NONE
        return key + text + self._looked_up("gd_dynamic_store", target) + _STORED

    def _stored(self, type_: Type, size: int) -> Cost:
        if isinstance(type_, String):
            return self._helper("gd_put_string", size)
        return _STORED + _STORED if is_scalar(type_) else copying(size)

    # Statements.

    def _key(self, keys: tuple[ir.Expression, ...], layout: tuple[Datum, ...], size: int) -> Cost:
        """The cost of filling in a key, without that of computing its values."""
        if not keys:
            return _NONE
        room = self._helper("gd_alloca") if size > LARGE_KEY else _NONE
        return room + Cost(4 + size // 4, 0, 2 + size // 8) + _sum(map(self._put, layout))

    def _put(self, datum: Datum) -> Cost:
        match datum.kind:
            case Kind.INT | Kind.STACK:
                return _STORED
            case Kind.STRING:
                return self._helper("gd_put_string", datum.size)
            case Kind.BYTES:
                return copying(datum.size) + self._helper("gd_load", datum.size)
            case Kind.USTACK:
                return self._helper("gd_put_ustack", datum.size)
        return self._helper("gd_put_symbol", datum.size)

    def _aggregate(self, node: ir.Aggregate) -> Cost:
        aggregation = node.aggregation
        what, layout = aggregation.what, aggregation.recorded
        key = self._key(node.keys, layout, aggregation.key_size)
        size = len(what.edges) if what.function is Function.LLQUANTIZE else 0
        return self._parts(node) + key + self._helper(f"gd_{what.function}", size, aggregation.key_size)

    def _data(self, node: ir.Data) -> Cost:
        end = max((datum.offset + datum.size for datum in node.data), default=0)
        ends = self._helper("gd_exit") if node.action == "exit" else _NONE
        values = self._parts(node) if node.action != "exit" else self._parts(node) + self._parts(node)
        return values + self._helper("gd_reserve", end) + _sum(map(self._put, node.data)) + ends

    def _function(self, node: ir.Function) -> Cost:
        """The cost of a function. If it may fail, that includes a fault and the record that reports it."""
        does = facts(node).does
        fails = self._helper("gd_report") + self._helper("gd_fail") if does & Does.FAILS else _NONE
        signals = self._helper("gd_send_signals") if does & Does.SIGNALS else _NONE
        local = Cost(20 + 5 * self._limits.local // 8, 0, 2 + self._limits.local // 8)
        return _ENTERED + local + self._parts(node) + fails + signals


#: The cost of one node alone, by its class; the cost of its operands is added to it.
_OWN: dict[type, Cost] = {
    ir.Constant: Cost(2),
    ir.Literal: Cost(2),
    ir.Argument: _LOADED,
    ir.Local: _LOADED,
    ir.Bound: Cost(1, 1),
    ir.Let: _NONE,
    ir.Evaluate: _NONE,
    ir.Place: _LOADED,
    ir.Part: Cost(10, 2),
    ir.Register: Cost(12, 4),
    machine.Reg: Cost(1, 1),
    machine.CallResult: Cost(1, 1),
    machine.SyscallArg: Cost(1, 1),
    machine.SyscallResult: Cost(1, 1),
    machine.SyscallNumber: Cost(40, 10),
    machine.Start: Cost(3, 2),
    machine.ClockCounter: Cost(6),
    machine.ProcessId: Cost(4, calls=1),
    machine.ThreadId: Cost(4, calls=1),
}
_WHOLE: dict[type, Callable[[_Costs, Any], Cost]] = {
    ir.Conditional: _Costs._either,
    ir.If: _Costs._either,
    ir.Binary: _Costs._binary,
    ir.Convert: _Costs._convert,
    ir.Field: _Costs._field,
    ir.Keyed: _Costs._keyed,
    ir.Call: _Costs._call,
    ir.Act: _Costs._call,
    machine.StackWord: lambda costs, node: _WORD,
    machine.CallArg: lambda costs, node: _WORD if facts(node).stack else Cost(1, 1),
    ir.Peek: _Costs._peek,
    ir.Ask: _Costs._ask,
    ir.Assign: _Costs._assign,
    ir.Step: _Costs._step,
    ir.Aggregate: _Costs._aggregate,
    ir.Data: _Costs._data,
    ir.Function: _Costs._function,
}
