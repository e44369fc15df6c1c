# SPDX-License-Identifier: LGPL-2.1-or-later
"""The printer of a clause. Its code ends by running into the code behind it, so that clauses can be put one after
another.

Room for a record is reserved first, then the record is made in the frame, then copied; so its values are not computed
if there is no room. The epid of the current part is kept in the frame, where the report of a fault finds it.
"""

from __future__ import annotations

from signal import SIGSTOP

from gilk.lang import ir
from gilk.lang.data import Function
from gilk.lang.to_c.functions import RecordPart, record_part
from gilk.lang.to_kernel import data, scratch, values
from gilk.lang.to_kernel.code import WORD, KernelFrame, Label, Slot
from gilk.lang.to_kernel.printing import Printing
from gilk.lang.to_kernel.refused import NotInKernel
from gilk.lang.types import INT64
from gilk.values import dataclass

_ARGUMENTS = 10  # of a probe, at the start of the frame
_SIGNALS = ("stop", "raise")
_SPECULATING = {"speculate": "speculate", "commit": "commit_speculation", "discard": "discard_speculation"}
_WEIGHED = (Function.QUANTIZE, Function.LQUANTIZE, Function.LLQUANTIZE)


@dataclass(frozen=True, slots=True)
class PrintedClause:
    code: bytes
    frame: int  # bytes
    parts: tuple[RecordPart, ...]


class ClausePrinter:
    """A printer of one clause. ``first``: the epid of the first part of its records."""

    def __init__(self, printing: Printing, first: int) -> None:
        self._p = printing
        self._first = first
        self._parts: list[RecordPart] = []
        self._done = Label()
        self._epid = printing.frame.take(8)

    def clause(self, function: ir.Function) -> PrintedClause:
        """The code of the clause. Raises NotInKernel."""
        p, code, behind = self._p, self._p.code, Label()
        code.call("begin", function.number)
        code.emit("test eax")
        code.branch("jz", behind)
        start = len(code)
        code.emit("store immediate", self._epid, 0)
        if function.guard is not None:
            values.test(p, function.guard)
            code.branch("jz", self._done)
        self._statements(function, function.body)
        code.place(self._done)
        code.call("end")
        code.branch("jmp", behind)
        code.place(p.fault)
        code.call("fault", Slot(self._epid), function.number)
        code.place(behind)
        text = bytearray(bytes(code))
        if self._parts:
            text[start + 7 : start + 11] = self._first.to_bytes(4, "little")
        return PrintedClause(bytes(text), p.frame.most, tuple(self._parts))

    def _statements(self, function: ir.Function, statements: tuple[ir.Statement, ...]) -> None:
        run: list[ir.Statement] = []
        for statement in statements:
            if isinstance(statement, ir.If):
                self._run(function, run)
                run = []
                self._if(function, statement)
            else:
                run.append(statement)
        self._run(function, run)

    def _if(self, function: ir.Function, statement: ir.If) -> None:
        code, otherwise, behind = self._p.code, Label(), Label()
        values.test(self._p, statement.test)
        code.branch("jz", otherwise)
        self._statements(function, statement.then)
        code.branch("jmp", behind)
        code.place(otherwise)
        self._statements(function, statement.otherwise)
        code.place(behind)

    def _run(self, function: ir.Function, statements: list[ir.Statement]) -> None:
        """Print statements without branches, with a record if any of them has data."""
        actions = [one for one in statements if isinstance(one, ir.Data)]
        if not actions:
            for one in statements:
                self._statement(one)
            return
        part = self._part(function, actions)
        first = next(i for i, one in enumerate(statements) if isinstance(one, ir.Data))
        given = iter(part.actions)
        for one in statements[:first]:
            self._statement(one)
        self._reserve(part)
        with self._p.frame.room(max(part.size, 8)) as at:
            data.zero(self._p, at, part.size, [datum for action in part.actions for datum in action.data])
            for one in statements[first:]:
                if isinstance(one, ir.Data):
                    self._data(next(given), at)
                else:
                    self._statement(one)
            self._p.code.call("commit", at, part.size)

    def _reserve(self, part: RecordPart) -> None:
        """Print the reservation of a record. A program that calls exit() ends even if there is no room for
        the record.
        """
        code, got = self._p.code, Label()
        code.emit("store immediate", self._epid, part.epid)
        code.call("reserve", part.epid, part.size)
        code.emit("test eax")
        code.branch("jnz", got)
        for action in part.actions:
            if action.action == "exit":
                self._exit(action)
        code.branch("jmp", self._done)
        code.place(got)

    def _exit(self, action: ir.Data) -> None:
        with self._p.frame.room() as status:
            values.value(self._p, action.values[0])
            self._p.code.keep(status)
            self._p.code.call("exit", Slot(status))

    def _part(self, function: ir.Function, actions: list[ir.Data]) -> RecordPart:
        part = record_part(self._first + len(self._parts), function.number, actions)
        self._parts.append(part)
        return part

    def _data(self, action: ir.Data, at: int) -> None:
        for given, datum in zip(action.values, action.data, strict=True):
            data.store(self._p, at + datum.offset, given, datum, values.value)
        if action.action == "exit":
            self._p.code.emit("load u32", at + action.data[0].offset)
            with self._p.frame.room() as status:
                self._p.code.keep(status)
                self._p.code.call("exit", Slot(status))

    def _statement(self, statement: ir.Statement) -> None:
        match statement:
            case ir.Evaluate(expression=expression):
                values.value(self._p, expression)
            case ir.Aggregate():
                self._aggregate(statement)
            case ir.Act():
                self._act(statement)
            case _:
                raise AssertionError(f"{statement} is not in a row")

    def _act(self, statement: ir.Act) -> None:
        code = self._p.code
        if statement.action in _SIGNALS:
            return self._signal(statement)
        if statement.action in scratch.ACTS:
            return scratch.ACTS[statement.action](self._p, statement.arguments, values.value)
        if statement.action not in _SPECULATING:
            raise NotInKernel(f"{statement.action}()")
        with self._p.frame.room() as number:
            values.value(self._p, ir.Convert(INT64, statement.arguments[0]))
            code.keep(number)
            code.call(_SPECULATING[statement.action], Slot(number))
        code.emit("test eax")
        code.branch("jz", self._done if statement.action == "speculate" else self._p.fault)

    def _signal(self, statement: ir.Act) -> None:
        with self._p.frame.room() as number:
            wanted = statement.arguments[0] if statement.arguments else ir.Constant(INT64, SIGSTOP)
            values.value(self._p, ir.Convert(INT64, wanted))
            self._p.code.keep(number)
            self._p.code.call("raise", Slot(number))
        self._p.fails()

    def _aggregate(self, statement: ir.Aggregate) -> None:
        aggregation, p = statement.aggregation, self._p
        with p.frame.room(aggregation.key_size) as key, p.frame.room(16) as numbers:
            data.key(p, key, statement.keys, aggregation.recorded, aggregation.key_size, values.value)
            for place, given in enumerate((statement.value, statement.weight)):
                if given is not None:
                    values.value(p, given)
                    p.code.keep(numbers + 8 * place)
            added = Slot(numbers) if statement.value is not None else 0
            weight = Slot(numbers + 8) if statement.weight is not None else 1
            p.code.call("aggregate", aggregation.number - 1, key, added, weight)


def preamble(p: Printing, given: ir.Given) -> None:
    """Print the code before the clauses: it ends the run if the condition is not met or cannot be computed, and then
    puts the arguments in place.
    """
    meant, behind = Label(), Label()
    if given.condition is not None:
        values.test(p, given.condition)
        p.code.branch("jnz", meant)
        p.code.emit("exit")
        p.code.place(meant)
    with p.frame.room(WORD * _ARGUMENTS) as made:
        for number in range(_ARGUMENTS):
            argument = given.arguments[number] if number < len(given.arguments) else None
            if argument is None:
                p.code.emit("store immediate", made + WORD * number, 0)
            else:
                values.value(p, argument)
                p.code.keep(made + WORD * number)
        p.code.call("copy", made, 0, WORD * _ARGUMENTS)
    p.code.branch("jmp", behind)
    p.code.place(p.fault)
    p.code.emit("exit")
    p.code.place(behind)


def frame_of(this_size: int) -> tuple[KernelFrame, int]:
    """A new frame, and the offset of clause-local variables in it."""
    frame = KernelFrame()
    return frame, frame.take(max(this_size, 8))
