# SPDX-License-Identifier: LGPL-2.1-or-later
"""The printer of functions as C, and the contents of their records.

A function records its data in *parts*, each a record with an epid of its own. Most functions have one part. If actions
depend on a condition, these are another part, and the actions after it a third.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gilk.lang import ir
from gilk.lang.data import Datum, Function, Kind
from gilk.lang.nulls import Nulls
from gilk.lang.to_c.expressions import ExpressionPrinter
from gilk.lang.types import Void
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class RecordPart:
    """The contents of a record of ``epid``: ``actions`` in order, with data in ``size`` bytes.

    ``clause``: the number of the function.
    """

    epid: int
    clause: int
    actions: tuple[ir.Data, ...]
    size: int


class FunctionPrinter:
    """A printer of the functions of a program, one after another. ``parts``: the parts of all functions so far."""

    def __init__(
        self, strsize: int, globals_start: int, nulls: Nulls | None = None, scratchsize: int = 0
    ) -> None:  # fmt: skip
        self._expressions = ExpressionPrinter(strsize, globals_start, nulls, scratchsize)
        self.parts: list[RecordPart] = []

    def function(self, function: ir.Function) -> str:
        """The C of a function, ``static void clause_N(context, memory of this firing)``."""
        first = len(self.parts) + 1
        lines = self._statements(function, function.body)
        test = function.guard
        body = [f"if (!{self._expressions.emit(test)}) goto done;"] if test is not None else []
        body += lines
        indented = "\n".join(f"\t{line}" for line in body)
        epid = first if len(self.parts) >= first else 0
        return _FUNCTION.format(number=function.number, epid=epid, body=indented)

    def _statements(self, function: ir.Function, statements: tuple[ir.Statement, ...]) -> list[str]:
        lines: list[str] = []
        run: list[ir.Statement] = []
        for statement in statements:
            if isinstance(statement, ir.If):
                lines += self._run(function, run)
                run = []
                lines += self._if(function, statement)
            else:
                run.append(statement)
        return lines + self._run(function, run)

    def _if(self, function: ir.Function, statement: ir.If) -> list[str]:
        then, otherwise = (self._statements(function, branch) for branch in (statement.then, statement.otherwise))
        lines = [f"if ({self._expressions.emit(statement.test)}) {{", *_deeper(then)]
        return [*lines, "} else {", *_deeper(otherwise), "}"] if otherwise else [*lines, "}"]

    def _run(self, function: ir.Function, statements: list[ir.Statement]) -> list[str]:
        """The C of statements without branches, with a record if any of them has data."""
        actions = [one for one in statements if isinstance(one, ir.Data)]
        if not actions:
            return [self._statement(one) for one in statements]
        part = self._part(function, actions)
        first = next(i for i, one in enumerate(statements) if isinstance(one, ir.Data))
        given = iter(part.actions)
        lines = [self._statement(one) for one in statements[:first]]
        lines += [f"epid = {part.epid};", *self._reserve(part)]
        for one in statements[first:]:
            lines += self._data(next(given)) if isinstance(one, ir.Data) else [self._statement(one)]
        return [*lines, "gd_commit(c);"]

    def _reserve(self, part: RecordPart) -> list[str]:
        """The C that reserves room for a record. A program that calls exit() ends even if there is no room for the
        record.
        """
        ends = (self._expressions.emit(one.values[0]) for one in part.actions if one.action == "exit")
        exits = [f"\tgd_exit(c, (gd_u32){status});" for status in ends]
        size = min(part.size, _NO_ROOM)
        return [f"if (!gd_reserve(c, {part.epid}, {size}U)) {{", *exits, "\tgoto done;", "}"]

    def _part(self, function: ir.Function, actions: Iterable[ir.Data]) -> RecordPart:
        part = record_part(len(self.parts) + 1, function.number, list(actions))
        self.parts.append(part)
        return part

    def _data(self, action: ir.Data) -> list[str]:
        lines = [
            self._expressions.places.datum("c->data", value, datum).rstrip()
            for value, datum in zip(action.values, action.data, strict=True)
        ]
        if action.action == "exit":
            lines.append(f"gd_exit(c, *(gd_u32 *)(c->data + {action.data[0].offset}));")
        return [f"{{ {line} }}" for line in lines]

    def _statement(self, statement: ir.Statement) -> str:
        match statement:
            case ir.Evaluate(expression=expression):
                value = self._expressions.nullable(expression)
                return f"{value};" if isinstance(expression.type, Void) else f"(void){value};"
            case ir.Aggregate():
                return self._aggregate(statement)
            case ir.Act():
                return self._act(statement)
        raise AssertionError(f"{statement} is not in a row")

    def _act(self, statement: ir.Act) -> str:
        before, arguments = self._expressions.in_order(statement.arguments)
        return f"{{ {before}{_DEEDS[statement.action].format(*arguments)} }}"

    def _aggregate(self, statement: ir.Aggregate) -> str:
        aggregation, what = statement.aggregation, statement.aggregation.what
        places, size = self._expressions.places, str(aggregation.key_size)
        if aggregation.keys and aggregation.keys[-1].kind is Kind.USTACK:
            key, name, size = places.stack_key(statement.keys, aggregation.recorded, aggregation.key_size)
        else:
            key, name = places.key(statement.keys, aggregation.recorded, aggregation.key_size)
        arguments = [str(aggregation.number), name, size]
        weight = "1"
        if statement.value is not None:
            key += f"gd_s64 value = {self._expressions.emit(statement.value)}; "
            arguments.append("value")
        if statement.weight is not None:
            key += f"gd_s64 weight = {self._expressions.emit(statement.weight)}; "
            weight = "weight"
        if what.function is Function.QUANTIZE:
            arguments.append(weight)
        elif what.function is Function.LQUANTIZE:
            arguments += [f"{what.low}L", f"{what.high}L", f"{what.step}L", weight]
        elif what.function is Function.LLQUANTIZE:
            edges = ", ".join(f"{edge}UL" for edge in what.edges)
            key = f"static const gd_u64 edges[] = {{ {edges} }}; {key}"
            arguments += ["edges", str(len(what.edges)), weight]
        return f"{{ {key}gd_{what.function}(c, {', '.join(arguments)}); }}"


def record_part(epid: int, clause: int, actions: Sequence[ir.Data]) -> RecordPart:
    """A part with the data of these actions, moved so that they begin at 0."""
    data = [datum for action in actions for datum in action.data]
    start = min((datum.offset for datum in data), default=0) & -8
    size = max((datum.offset + datum.size for datum in data), default=start) - start
    moved = tuple(replace(action, data=tuple(_moved(datum, start) for datum in action.data)) for action in actions)
    return RecordPart(epid, clause, moved, size)


def _moved(datum: Datum, start: int) -> Datum:
    return replace(datum, offset=datum.offset - start)


def _deeper(lines: list[str]) -> list[str]:
    return [f"\t{line}" for line in lines]


_NO_ROOM = 0xFFFFFFFF  # bytes of a record for which no buffer has room
#: The last five change the process, and may fail if that is not allowed.
_DEEDS = {
    "speculate": "if (!gd_speculate(c, {0})) goto done;",
    "commit": "gd_commit_speculation(c, {0}); if (c->fault) goto fault;",
    "discard": "gd_discard_speculation(c, {0}); if (c->fault) goto fault;",
    "stop": "if (!gd_ask_signal(c, GD_SIGSTOP)) goto fault;",
    "raise": "if (!gd_ask_signal(c, {0})) goto fault;",
    "copyout": "if (!gd_store(c, {1}, (const void *){0}, {2})) goto fault;",
    "copyoutstr": "if (!gd_store_string(c, {1}, {0}, {2})) goto fault;",
    "chill": "if (!gd_chill(c, {0})) goto fault;",
}

_FUNCTION = """\
static void clause_{number}(struct gd_context *c, gd_u8 *t)
{{
	gd_u64 vtime __attribute__((unused)) = 0;
	gd_u32 epid = {epid};

	(void)t;
{body}
	goto done;
fault: __attribute__((unused));
	gd_discard(c);
	gd_end(c);
	gd_report(c, epid, {number}, 0);
	return;
done: __attribute__((unused));
	gd_end(c);
}}
"""
