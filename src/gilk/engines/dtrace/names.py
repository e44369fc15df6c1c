# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names for the addresses in records and keys, in the form that the options ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, field
from functools import cache
from itertools import chain, repeat
from typing import Protocol

from gilk.engines.dtrace.kernel_names import KernelNames
from gilk.engines.dtrace.symbols import SymbolNames
from gilk.image.demangle import readable
from gilk.lang.d.options import Options
from gilk.lang.d.printf import Conversion, LiteralText, Shows, parse_format
from gilk.lang.data import Kind
from gilk.trace.d.values import Integer, Value, encoded
from gilk.values import dataclass

_IN_KERNEL = (Kind.SYM, Kind.MOD)  # the kinds that are about addresses in the kernel
_UNRESOLVED = (Kind.USTACK, Kind.USYM, Kind.UADDR)  # the kinds that the option noresolve is about


class NamesProcesses(Protocol):
    """Gives names for addresses of one process, or of several."""

    def of(self, process: int) -> SymbolNames:
        """The names of one process. ``process``: the word by which a record identifies it."""


@dataclass
class Names:
    """Makes names. ``symbols``: of the process or processes. ``options``: noresolve and sourcelines are looked up each
    time.
    """

    symbols: NamesProcesses
    options: Options
    kernel: KernelNames = field(default_factory=KernelNames)

    def resolve(self, kind: Kind, pid: int, addresses: tuple[int, ...]) -> tuple[bytes, ...]:
        """A name for each address. Names that came from undecodable bytes are encoded to the same bytes."""
        if kind in _UNRESOLVED and self.options.flag("noresolve"):
            places = map(self.symbols.of(pid).place, addresses)
            return tuple(encoded(unresolved(at.address, at.module, at.offset)) for at in places)
        if kind is Kind.USTACK:
            return self._user_frames(self.symbols.of(pid), addresses)
        if kind is Kind.STACK:
            return tuple(encoded(frame(*astuple(found))) for found in self.kernel.frames(addresses))
        return tuple(encoded(self._name(kind, pid, address)) for address in addresses)

    def _user_frames(self, symbols: SymbolNames, addresses: tuple[int, ...]) -> tuple[bytes, ...]:
        frames = [frame(*astuple(found)) for found in symbols.frames(addresses)]
        if self.options.flag("sourcelines"):
            lines = symbols.lines(addresses)
            frames = [f"{name} ({line})" if line else name for name, line in zip(frames, lines, strict=True)]
        return tuple(map(encoded, frames))

    def stands(self, kind: Kind, pid: int, address: int) -> tuple[int, bytes]:
        """The name of an address, and the address that stands for it: the start of the function or module."""
        if kind in _IN_KERNEL:
            found = self.kernel.name(address)
            start = address - found.offset if kind is Kind.SYM else address
        else:
            symbols = self.symbols.of(pid)
            start = symbols.start(address) if kind is Kind.USYM else symbols.module_start(address)
        return start, self.resolve(kind, pid, (start,))[0]

    def wanted(
        self, format_: str, values: Sequence[Value], totals: Sequence[Value] = ()
    ) -> tuple[tuple[int, bytes], ...]:
        """The names of the addresses that %a and %A of a format show."""
        if not _names(format_):
            return ()
        return tuple((address, self._called(address)) for address in _addresses(_pieces(format_), values, totals))

    def _called(self, address: int) -> bytes:
        """The name of an address, of the kernel's if it is in the upper half of the address space, else of the
        process's."""
        found = (self.kernel if address >> 63 else self.symbols.of(0)).name(address)
        return encoded(frame(address, found.module, found.function, found.offset))

    def _name(self, kind: Kind, pid: int, address: int) -> str:
        found = (self.kernel if kind in _IN_KERNEL else self.symbols.of(pid)).name(address)
        match kind:
            case Kind.UMOD | Kind.MOD:
                return found.module or f"0x{address:x}"
            case Kind.USYM | Kind.SYM if found.function:
                return frame(address, found.module, found.function)
            case Kind.USYM | Kind.SYM:
                return frame(address, found.module)
        return frame(address, found.module, found.function, found.offset)


def frame(address: int, module: str = "", function: str = "", offset: int = 0) -> str:
    """The text of a frame: ``mod`func+0x10``, ``mod`0x4010`` without a function, or ``0x4010`` without a module."""
    if not module:
        return f"0x{address:x}"
    if not function:
        return f"{module}`0x{address:x}"
    return f"{module}`{readable(function)}" + (f"+0x{offset:x}" if offset else "")


def unresolved(address: int, module: str = "", offset: int = 0) -> str:
    """The text of a frame with the option noresolve: the object, and the offset in its mapping."""
    return f"{module}:0x{offset:x}" if module else f"0x{address:x}"


@cache
def _pieces(format_: str) -> tuple[LiteralText | Conversion, ...]:
    return parse_format(format_)


@cache
def _names(format_: str) -> bool:
    return any(isinstance(one, Conversion) and one.rule.shows is Shows.ADDRESS for one in _pieces(format_))


def _addresses(
    pieces: Sequence[LiteralText | Conversion], values: Sequence[Value], totals: Sequence[Value]
) -> Iterator[int]:
    """The addresses that a format shows. Conversions take values from left to right, also for widths and precisions;
    the last total is used again and again."""
    given, counted = iter(values), chain(totals, repeat(totals[-1]) if totals else ())
    for one in pieces:
        if isinstance(one, Conversion):
            for _ in range(one.dynamic_width + one.dynamic_precision):
                next(given)
            value = next(counted if one.aggregation else given)
            if one.rule.shows is Shows.ADDRESS and isinstance(value, Integer):
                yield value.as_unsigned
