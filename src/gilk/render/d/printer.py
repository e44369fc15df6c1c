# SPDX-License-Identifier: LGPL-2.1-or-later
"""The consumer: what happens is printed as dtrace(1) prints it, action by action."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import astuple, field
from functools import cache
from typing import Protocol

from gilk.lang.d import tree
from gilk.lang.d.options import BadOption, Options
from gilk.lang.d.printf import Conversion, Literal, parse_format
from gilk.lang.data import Aggregation, Datum, Kind
from gilk.render.d import aggregations, hexdump, printf, records, sorting, stacks, trace, typed
from gilk.render.d.contents import Contents, Row
from gilk.render.d.merging import Merged, idle, merged
from gilk.render.d.messages import Messages
from gilk.render.d.sorting import Order
from gilk.render.d.values import Rendered, Value, decode, encoded, raw
from gilk.session.dtrace.kernel_names import KernelNames
from gilk.session.dtrace.symbols import Symbols
from gilk.session.dtrace.tracing import Corrupt, Fault, Firing, Happening
from gilk.trace.d.aggregations import Aggregations
from gilk.trace.d.drops import Drop
from gilk.values import dataclass


class Outlet(Protocol):
    """Where output goes, and who does what actions ask of the system."""

    def write(self, data: bytes) -> None: ...
    def complain(self, text: str) -> None: ...
    def system(self, command: bytes) -> None: ...
    def freopen(self, name: bytes) -> None:
        """Raises OSError."""
        ...

    def ftruncate(self) -> None: ...


@dataclass
class Printer:
    """``known``: the program's aggregations. One per session: it keeps what normalize() and printa() have done."""

    outlet: Outlet
    options: Options
    messages: Messages
    known: tuple[Aggregation, ...]
    totals: Aggregations
    symbols: Symbols
    testing: bool = False
    kernel: KernelNames = field(default_factory=KernelNames)
    _normal: dict[str, int] = field(default_factory=dict)
    _printed: set[str] = field(default_factory=set)
    _flows: dict[int, records.Flow] = field(default_factory=dict)

    def begin(self) -> None:
        self.outlet.write(records.header(self._style()))

    def show(self, happening: Happening) -> None:
        match happening:
            case Firing():
                self._firing(happening)
            case Fault(probe=probe, clause=clause, kind=kind, address=address):
                self.outlet.complain(self.messages.fault(f"dt_clause_{clause - 1}", probe, kind, address))
            case Corrupt(what):
                self.outlet.complain(self.messages.corrupt(what))
            case Drop():
                self._drop(happening)

    def end(self) -> None:
        """What was not printed by the program is printed now."""
        self.outlet.write(b"\n")
        left = self._contents([one for one in self.known if one.name not in self._printed])
        self.outlet.write(aggregations.print_all([one for one in left if one.rows], self._order(), self._indent))

    # Records.

    def _style(self) -> records.Style:
        return records.Style(self.options.flag("quiet"), self.testing, self.options.flag("flowindent"))

    @property
    def _indent(self) -> int:
        return self.options.number("stackindent")

    def _firing(self, firing: Firing) -> None:
        style = self._style()
        self.outlet.write(self._prefix(style, firing))
        for action in firing.part.actions:
            _ACTIONS[action.action](self, firing, action)
        self.outlet.write(records.end(style))

    def _prefix(self, style: records.Style, firing: Firing) -> bytes:
        if not style.flow:
            return records.prefix(style, firing.cpu, firing.probe)
        flow = self._flows.get(firing.cpu, records.Flow())
        text, self._flows[firing.cpu] = records.flow_prefix(style, firing.cpu, firing.probe, firing.part.clause, flow)
        return text

    def _values(self, firing: Firing, action: tree.Data) -> list[Value]:
        return [decode(datum, firing.data, self._resolve) for datum in action.data]

    def _plain(self, datum: Datum, data: bytes) -> Value:
        """Of what is printed without a format: with rawbytes strings are bytes like others."""
        if self.options.flag("rawbytes") and datum.kind in (Kind.STRING, Kind.BYTES):
            return Rendered(hexdump.hexdump(raw(datum, data).data))
        return decode(datum, data, self._resolve)

    def _number(self, firing: Firing, action: tree.Data, which: int = 0) -> int:
        datum = action.data[which]
        return int.from_bytes(firing.data[datum.offset : datum.offset + datum.size], "little", signed=True)

    # Actions.

    def _nothing(self, firing: Firing, action: tree.Data) -> None:
        """The record's line is all there is."""

    def _printf(self, firing: Firing, action: tree.Data) -> None:
        self.outlet.write(self._formatted(firing, action))

    def _formatted(self, firing: Firing, action: tree.Data) -> bytes:
        return printf.render(_pieces(action.text or ""), self._values(firing, action), name=self._called)

    def _trace(self, firing: Firing, action: tree.Data) -> None:
        for datum in action.data:
            value = self._plain(datum, firing.data)
            self.outlet.write(trace.trace(value, self.options.flag("quiet"), self._indent))

    def _tracemem(self, firing: Firing, action: tree.Data) -> None:
        datum = action.data[0]
        size = self._number(firing, action, 1) if len(action.data) > 1 else datum.size
        size = min(max(size, 0), datum.size)
        self.outlet.write(hexdump.hexdump(firing.data[datum.offset : datum.offset + size]))

    def _print(self, firing: Firing, action: tree.Data) -> None:
        address, whole = action.data
        start = int.from_bytes(firing.data[address.offset : address.offset + 8], "little")
        data = firing.data[whole.offset : whole.offset + whole.size]
        assert action.shown is not None
        strsize, most = self.options.number("strsize"), self.options.number("printsize")
        self.outlet.write(typed.printed(start, action.shown, data, most, strsize))

    def _system(self, firing: Firing, action: tree.Data) -> None:
        command = self._formatted(firing, action)
        if b"\0" in command:
            self._library_fault(firing, "couldn't run a command with a NUL in it")
        else:
            self.outlet.system(command)

    def _freopen(self, firing: Firing, action: tree.Data) -> None:
        name = self._formatted(firing, action)
        try:
            self.outlet.freopen(name)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            self._library_fault(firing, f'couldn\'t freopen() "{name.decode(errors="replace")}": {why}')

    def _ftruncate(self, firing: Firing, action: tree.Data) -> None:
        self.outlet.ftruncate()

    def _setopt(self, firing: Firing, action: tree.Data) -> None:
        name, _, value = (action.text or "").partition("=")
        try:
            self.options.set(name, value or None, active=True)
        except BadOption as bad:
            self._library_fault(firing, f'couldn\'t set option "{name}" to "{value}": {bad}')

    def _library_fault(self, firing: Firing, what: str) -> None:
        clause = f"dt_clause_{firing.part.clause - 1}"
        self.outlet.complain(self.messages.library_fault(clause, firing.probe, what))

    # Aggregations.

    def _aggregation(self, name: str) -> Aggregation:
        return next(one for one in self.known if one.name == name)

    def _contents(self, wanted: Sequence[Aggregation], formatted: bool = False) -> list[Contents]:
        """Of all of them as they are at one moment."""
        found: dict[int, dict[bytes, tuple[int, ...]]] = {one.number: {} for one in wanted}
        for (number, key), cells in self.totals.recent(found).items():
            found[number][key] = cells
        return [self._content(one, found[one.number], formatted) for one in wanted]

    def _content(self, one: Aggregation, found: dict[bytes, tuple[int, ...]], formatted: bool) -> Contents:
        rows = []
        for key, row in merged(one, found, self._stands).items():
            values = tuple(
                decode(datum, key, self._resolve) if formatted else self._plain(datum, key) for datum in one.keys
            )
            rows.append(Row(key, values, row.cells, self._processors(one, row), tuple(row.keys)))
        return Contents(one, tuple(rows), self._normal.get(one.name, 1))

    def _processors(self, one: Aggregation, row: Merged) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """All that there are, with the option aggpercpu; none without."""
        if one.processor is None:
            return ()
        count = max(os.cpu_count() or 1, *(number + 1 for number in row.processors))
        return tuple((number, row.processors.get(number, idle(one))) for number in range(count))

    def _order(self) -> Order:
        options = self.options
        return Order(
            options.flag("aggsortkey"),
            options.number("aggsortkeypos"),
            options.number("aggsortpos"),
            options.flag("aggsortrev"),
        )

    def _printa(self, firing: Firing, action: tree.Data) -> None:
        self._printed.update(action.aggregations)
        wanted = [self._aggregation(name) for name in action.aggregations]
        contents = self._contents(wanted, action.text is not None)
        pieces = None if action.text is None else _pieces(action.text)
        self.outlet.write(aggregations.printa(contents, pieces, self._order(), self._indent, self._called))

    def _clear(self, firing: Firing, action: tree.Data) -> None:
        number = self._aggregation(action.aggregations[0]).number
        self.totals.recent((number,))
        self.totals.clear(number)

    def _trunc(self, firing: Firing, action: tree.Data) -> None:
        wanted = self._aggregation(action.aggregations[0])
        (contents,) = self._contents([wanted])
        keep = self._number(firing, action) if action.data else 0
        kept = {row.key for row in sorting.truncated(contents, keep).rows} if action.data else set()
        gone = (key for row in contents.rows if row.key not in kept for key in row.raw)
        self.totals.trunc(wanted.number, gone)

    def _normalize(self, firing: Firing, action: tree.Data) -> None:
        self._normal[action.aggregations[0]] = self._number(firing, action) or 1

    def _denormalize(self, firing: Firing, action: tree.Data) -> None:
        self._normal.pop(action.aggregations[0], None)

    # Losses.

    def _drop(self, drop: Drop) -> None:
        self.outlet.complain(self.messages.drop(drop.kind, drop.count, drop.cpu, self.options.flag("droptags")))

    # Names.

    def _resolve(self, kind: Kind, pid: int, addresses: tuple[int, ...]) -> tuple[bytes, ...]:
        """Names that came from bytes go back to them."""
        if kind is Kind.USTACK and self.options.flag("noresolve"):
            places = (self.symbols.place(address) for address in addresses)
            return tuple(encoded(stacks.unresolved(at.address, at.module, at.offset)) for at in places)
        if kind is Kind.USTACK:
            return tuple(encoded(stacks.frame(*astuple(found))) for found in self.symbols.frames(addresses))
        return tuple(encoded(self._name(kind, address)) for address in addresses)

    def _stands(self, kind: Kind, address: int) -> int:
        return self.symbols.start(address) if kind is Kind.USYM else self.symbols.module_start(address)

    def _called(self, address: int) -> bytes:
        """For %a and %A: the two halves of the address space have nothing in common."""
        found = (self.kernel if address >> 63 else self.symbols).name(address)
        return stacks.frame(address, found.module, found.function, found.offset).encode()

    def _name(self, kind: Kind, address: int) -> str:
        found = (self.kernel if kind in (Kind.STACK, Kind.SYM, Kind.MOD) else self.symbols).name(address)
        match kind:
            case Kind.UMOD | Kind.MOD:
                return found.module or f"0x{address:x}"
            case Kind.USYM | Kind.SYM if found.function:
                return f"{found.module}`{found.function}"
            case Kind.USYM | Kind.SYM:
                return stacks.frame(address, found.module)
        return stacks.frame(address, found.module, found.function, found.offset)


@cache
def _pieces(text: str) -> tuple[Literal | Conversion, ...]:
    return parse_format(text)


Action = Callable[[Printer, Firing, tree.Data], None]
_ACTIONS: dict[str, Action] = {
    "default": Printer._nothing,
    "exit": Printer._nothing,
    "printf": Printer._printf,
    "trace": Printer._trace,
    "tracemem": Printer._tracemem,
    "print": Printer._print,
    "printa": Printer._printa,
    "clear": Printer._clear,
    "trunc": Printer._trunc,
    "normalize": Printer._normalize,
    "denormalize": Printer._denormalize,
    "system": Printer._system,
    "freopen": Printer._freopen,
    "ftruncate": Printer._ftruncate,
    "setopt": Printer._setopt,
    **dict.fromkeys(("usym", "ufunc", "umod", "uaddr", "sym", "func", "mod", "ustack", "stack"), Printer._trace),
}
