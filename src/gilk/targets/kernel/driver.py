# SPDX-License-Identifier: LGPL-2.1-or-later
"""A client of the driver, through whatever carries its messages. Closing that undoes everything.

A session takes an arena, fills it with patches, and then applies the units that lead there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from mmap import mmap
from typing import Final, Protocol, TypeVar

from gilk.errors import GilkError, TargetError
from gilk.targets.kernel import driver_abi as abi
from gilk.targets.kernel.driver_abi import (
    CounterRange,
    DriverStatus,
    DriverUnit,
    Hello,
    RingChunk,
    Rings,
    UnitOutcome,
    Verdict,
)
from gilk.targets.kernel.driver_errors import cannot_open, refused
from gilk.targets.kernel.mapped import MappedRings, map_rings

T = TypeVar("T")

_RECORDS_AT_ONCE: Final = 1 << 20  # bytes
_HEAD: Final = abi.HEAD.size


class Carrier(Protocol):
    """The part of a Link that a driver's client uses."""

    def open_driver(self) -> None: ...
    def control(self, request: int, payload: bytes) -> bytes: ...
    def lend(self, request: int, payload: bytes, place: int, path: str) -> bytes: ...
    def drain(self, most: int) -> bytes: ...
    def map(self, offset: int, size: int, write: bool) -> mmap | None: ...


class Driver:
    """One client of the driver. Raises TargetError driver-not-loaded, -not-allowed, -version, -busy, -memory, -limit,
    -refused."""

    def __init__(self, link: Carrier) -> None:
        self._link = link
        _guarded(cannot_open, link.open_driver)
        self.hello = self._greet()
        self._symbols: dict[str, int] = {}
        self._mapped: MappedRings | None = None

    def _greet(self) -> Hello:
        body = self.ask(abi.HELLO, bytes(abi.HELLO_BODY.size))
        row = abi.HELLO_BODY.unpack(body)
        return Hello(*(*row[:15], row[15].rstrip(b"\0").decode()))

    @property
    def symbols(self) -> dict[str, int]:
        """Addresses of the driver's entry points for generated code."""
        if not self._symbols:
            body = self.ask(abi.SYMBOLS, bytes(8 + abi.SYMBOL_ROOM * abi.SYMBOL.size))
            count = int.from_bytes(body[:4], "little")
            rows = abi.SYMBOL.iter_unpack(body[8 : 8 + count * abi.SYMBOL.size])
            self._symbols = {name.rstrip(b"\0").decode(): address for name, address in rows}
        return self._symbols

    def arena(self, size: int) -> int:
        """Address of at least `size` bytes of executable memory, all int3, within 2 GiB of all kernel text."""
        body = self.ask(abi.ARENA, size.to_bytes(8, "little") + bytes(8))
        return int.from_bytes(body[8:], "little")

    def fill(self, address: int, content: bytes) -> None:
        most = self.hello.message_max - 64
        for start in range(0, len(content), most):
            piece = content[start : start + most]
            body = (address + start).to_bytes(8, "little") + len(piece).to_bytes(8, "little") + piece
            self.ask(abi.FILL, body)

    def hold(self, address: int) -> None:
        """Have the module with this address in its code stay until we have gone, and all of our units with us."""
        self.ask(abi.HOLD, address.to_bytes(8, "little"))

    def share(self, size: int) -> tuple[int, int]:
        """Memory that processes can have as well: a descriptor of ours, and its address in the kernel. Through a relay
        the descriptor would be the relay's."""
        _, address, descriptor, _ = abi.SHARE_BODY.unpack(self.ask(abi.SHARE, abi.SHARE_BODY.pack(size, 0, 0, 0)))
        return descriptor, address

    def counters(self, count: int) -> list[CounterRange]:
        """Add ``count`` counters, at zero; their numbers follow those before."""
        room = count // 4096 + 16
        body = self.ask(abi.COUNTERS, count.to_bytes(4, "little") + bytes(4 + room * abi.BLOCK.size))
        made = int.from_bytes(body[4:8], "little")
        rows = abi.BLOCK.iter_unpack(body[8 : 8 + made * abi.BLOCK.size])
        return [CounterRange(gs, first, size, bool(flags & abi.NEAR)) for gs, first, size, flags, _ in rows]

    def read(self, first: int, count: int, cpu: int = abi.ALL_CPUS) -> list[int]:
        """Counters' values: sums over all processors, or those of one."""
        numbers = (first, count, cpu, 0)
        body = self.ask(abi.READ, b"".join(n.to_bytes(4, "little") for n in numbers) + bytes(8 * count))
        return [int.from_bytes(body[16 + 8 * i : 24 + 8 * i], "little") for i in range(count)]

    def records(self, orders: Sequence[int], flight: bool = False, watermark: int = 1) -> Rings:
        """Record buffers, 2**order bytes a processor for each class; order 0: none of that class.

        With `flight` it is the newest records that are kept where there is no more room, else the oldest. A select() of
        the driver's file tells when there are `watermark` full chunks in a ring.
        """
        rings = abi.unpack_rings(self.ask(abi.RECORDS, abi.pack_records(orders, flight, watermark)))
        self._mapped = map_rings(self._link.map, rings)
        return rings

    def filter(
        self, on: bool = True, only: bool = False, add: Collection[int] = (), remove: Collection[int] = (),
        clear: bool = False, interrupts: bool = False,
    ) -> int:  # fmt: skip
        """Have records made: none unless `on`, with `only` those of processes in the set; how many are in that now.

        The set is emptied first with `clear`; then `add` join it, and `remove` leave it. Interrupts are their task's,
        and wanted whosever they are with `interrupts`.
        """
        flags = on * abi.FILTER_ON | only * abi.FILTER_ONLY | clear * abi.FILTER_CLEAR
        flags |= interrupts * abi.FILTER_INTERRUPTS
        numbers = b"".join(tgid.to_bytes(4, "little") for tgid in (*add, *remove))
        body = self.ask(abi.FILTER, abi.FILTER_BODY.pack(flags, len(add), len(remove), 0) + numbers)
        return int.from_bytes(body[12:16], "little")

    def drain(self) -> Iterator[RingChunk]:
        """The records that there are. Raises TargetError stream-corrupt."""
        if self._mapped is not None:
            yield from self._mapped.take()
            return
        data = _guarded(refused, lambda: self._link.drain(_RECORDS_AT_ONCE))
        try:
            yield from abi.unpack_chunks(data)
        except ValueError as error:
            raise TargetError("stream-corrupt", f"the driver's records make no sense: {error}") from None

    def apply(self, units: Sequence[DriverUnit]) -> list[UnitOutcome]:
        """Apply units; the outcome of each, in order. Units whose outcome is not OK are not applied. A pad comes before
        its users."""
        outcomes: list[UnitOutcome] = []
        most = (self.hello.message_max - 64) // abi.UNIT.size
        for start in range(0, len(units), most):
            some = units[start : start + most]
            body = self.ask(abi.APPLY, len(some).to_bytes(4, "little") + bytes(4) + abi.pack_units(some))
            outcomes += abi.unpack_outcomes(body[8:])
        return outcomes

    def undo(self, numbers: Sequence[int]) -> list[UnitOutcome]:
        """Undo units; the outcome of each. When this returns, no task is in the patches of those that are OK."""
        if not numbers:
            return []
        rows = b"".join(abi.RESULT.pack(number, 0) for number in numbers)
        body = self.ask(abi.UNDO, len(numbers).to_bytes(4, "little") + bytes(4) + rows)
        return [UnitOutcome(number, Verdict(status)) for number, status in abi.RESULT.iter_unpack(body[8:])]

    def undo_all(self) -> int:
        """How many units are left because something else sits on them."""
        self.ask(abi.UNDO, bytes(8))
        return self.status().own_units

    def status(self) -> DriverStatus:
        return abi.unpack_status(self.ask(abi.STATUS, bytes(abi.STATUS_BODY.size)))

    def ask(self, request: int, body: bytes) -> bytes:
        """A message and its answer, both without their heads."""
        return _guarded(refused, lambda: self._link.control(request, abi.message(body)))[_HEAD:]

    def ask_about(self, path: str, request: int, place: int, body: bytes) -> bytes:
        """The same about a file there, a descriptor of which is at that place of the body. Raises OSError where the
        driver refuses it, or it cannot be opened."""
        return self._link.lend(request, abi.message(body), _HEAD + place, path)[_HEAD:]


def _guarded(meaning: Callable[[OSError], TargetError], action: Callable[[], T]) -> T:
    """Errors with a name of their own pass."""
    try:
        return action()
    except GilkError:
        raise
    except OSError as error:
        raise meaning(error) from None
