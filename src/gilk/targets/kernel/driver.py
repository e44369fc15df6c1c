# SPDX-License-Identifier: LGPL-2.1-or-later
"""A client of the driver, over whatever carries its messages. Closing the driver's file undoes everything.

A session reserves an arena, fills it with patches, and then applies the units that lead there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
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
    def controls(self, request: int, payloads: Sequence[bytes]) -> list[bytes]: ...
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
        """The addresses of the driver's entry points for generated code, by name."""
        if not self._symbols:
            body = self.ask(abi.SYMBOLS, bytes(8 + abi.SYMBOL_ROOM * abi.SYMBOL.size))
            count = int.from_bytes(body[:4], "little")
            rows = abi.SYMBOL.iter_unpack(body[8 : 8 + count * abi.SYMBOL.size])
            self._symbols = {name.rstrip(b"\0").decode(): address for name, address in rows}
        return self._symbols

    def arena(self, size: int) -> int:
        """Reserve at least `size` bytes of executable memory, all int3, within 2 GiB of all kernel text; returns the
        address."""
        body = self.ask(abi.ARENA, size.to_bytes(8, "little") + bytes(8))
        return int.from_bytes(body[8:], "little")

    def fill(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Write to the arena: rows of address and content."""
        most = self.hello.message_max - 64
        pieces = (
            (address + start, content[start : start + most])
            for address, content in rows
            for start in range(0, len(content), most)
        )
        self.ask_all(abi.FILL, [struct.pack("<QQ", address, len(piece)) + piece for address, piece in pieces])

    def hold(self, address: int) -> None:
        """Keep the module that has code at this address loaded until this client, with all its units, has gone."""
        self.ask(abi.HOLD, address.to_bytes(8, "little"))

    def share(self, size: int) -> tuple[int, int]:
        """Make memory that processes can map as well; returns a descriptor of it here, and its address in the kernel.
        Over a relay the descriptor would be the relay's."""
        _, address, descriptor, _ = abi.SHARE_BODY.unpack(self.ask(abi.SHARE, abi.SHARE_BODY.pack(size, 0, 0, 0)))
        return descriptor, address

    def counters(self, count: int) -> list[CounterRange]:
        """Add ``count`` counters, at zero, numbered after the existing ones; returns their ranges."""
        room = count // 4096 + 16
        body = self.ask(abi.COUNTERS, count.to_bytes(4, "little") + bytes(4 + room * abi.BLOCK.size))
        made = int.from_bytes(body[4:8], "little")
        rows = abi.BLOCK.iter_unpack(body[8 : 8 + made * abi.BLOCK.size])
        return [CounterRange(gs, first, size, bool(flags & abi.NEAR)) for gs, first, size, flags, _ in rows]

    def read(self, first: int, count: int, cpu: int = abi.ALL_CPUS) -> list[int]:
        """The values of ``count`` counters from ``first`` on: sums over all processors, or those of one."""
        numbers = (first, count, cpu, 0)
        body = self.ask(abi.READ, b"".join(n.to_bytes(4, "little") for n in numbers) + bytes(8 * count))
        return [int.from_bytes(body[16 + 8 * i : 24 + 8 * i], "little") for i in range(count)]

    def records(self, orders: Sequence[int], flight: bool = False, watermark: int = 1) -> Rings:
        """Make record buffers of 2**order bytes on each processor for each class; order 0: none for that class.

        When a buffer is full, `flight` keeps the newest records, otherwise the oldest are kept. select() on the
        driver's file returns when a ring has `watermark` full chunks.
        """
        rings = abi.unpack_rings(self.ask(abi.RECORDS, abi.pack_records(orders, flight, watermark)))
        self._mapped = map_rings(self._link.map, rings)
        return rings

    def filter(
        self, on: bool = True, only: bool = False, add: Collection[int] = (), remove: Collection[int] = (),
        clear: bool = False, interrupts: bool = False,
    ) -> int:  # fmt: skip
        """Say which processes make records; returns the number of processes in the set.

        No records are made unless `on`, and with `only` just those of processes in the set. With `clear` the set is
        emptied first; then `add` join it, and `remove` leave it. Interrupts count as the task's that they interrupt;
        with `interrupts` their records are made whatever the task.
        """
        flags = on * abi.FILTER_ON | only * abi.FILTER_ONLY | clear * abi.FILTER_CLEAR
        flags |= interrupts * abi.FILTER_INTERRUPTS
        numbers = b"".join(tgid.to_bytes(4, "little") for tgid in (*add, *remove))
        body = self.ask(abi.FILTER, abi.FILTER_BODY.pack(flags, len(add), len(remove), 0) + numbers)
        return int.from_bytes(body[12:16], "little")

    def drain(self) -> Iterator[RingChunk]:
        """The records that have not been read yet. Raises TargetError stream-corrupt."""
        if self._mapped is not None:
            yield from self._mapped.take()
            return
        data = _guarded(refused, lambda: self._link.drain(_RECORDS_AT_ONCE))
        try:
            yield from abi.unpack_chunks(data)
        except ValueError as error:
            raise TargetError("stream-corrupt", f"the driver's records make no sense: {error}") from None

    def apply(self, units: Sequence[DriverUnit]) -> list[UnitOutcome]:
        """Apply units; returns the outcome of each, in order. A unit whose outcome is not OK is not applied. A pad
        comes before the units that use it."""
        outcomes: list[UnitOutcome] = []
        most = (self.hello.message_max - 64) // abi.UNIT.size
        for start in range(0, len(units), most):
            some = units[start : start + most]
            body = self.ask(abi.APPLY, len(some).to_bytes(4, "little") + bytes(4) + abi.pack_units(some))
            outcomes += abi.unpack_outcomes(body[8:])
        return outcomes

    def undo(self, numbers: Sequence[int]) -> list[UnitOutcome]:
        """Undo units; returns the outcome of each. When this returns, no task is in the patches of the units that are
        OK."""
        if not numbers:
            return []
        rows = b"".join(abi.RESULT.pack(number, 0) for number in numbers)
        body = self.ask(abi.UNDO, len(numbers).to_bytes(4, "little") + bytes(4) + rows)
        return [UnitOutcome(number, Verdict(status)) for number, status in abi.RESULT.iter_unpack(body[8:])]

    def undo_all(self) -> int:
        """Undo all units of this client; returns how many are left because something else has been put over them."""
        self.ask(abi.UNDO, bytes(8))
        return self.status().own_units

    def status(self) -> DriverStatus:
        return abi.unpack_status(self.ask(abi.STATUS, bytes(abi.STATUS_BODY.size)))

    def ask(self, request: int, body: bytes) -> bytes:
        """Send a message; returns the answer. Both are without their heads."""
        return _guarded(refused, lambda: self._link.control(request, abi.message(body)))[_HEAD:]

    def ask_all(self, request: int, bodies: Iterable[bytes]) -> list[bytes]:
        """Send messages, without waiting for each answer; returns the answers, in order."""
        messages = [abi.message(body) for body in bodies]
        return [answer[_HEAD:] for answer in _guarded(refused, lambda: self._link.controls(request, messages))]

    def ask_about(self, path: str, request: int, place: int, body: bytes) -> bytes:
        """Send a message about a file on the kernel's machine, whose descriptor is put at offset ``place`` of the body.
        Raises OSError where the driver refuses it, or the file cannot be opened."""
        return self._link.lend(request, abi.message(body), _HEAD + place, path)[_HEAD:]


def _guarded(meaning: Callable[[OSError], TargetError], action: Callable[[], T]) -> T:
    """The action's result. An OSError is translated by ``meaning``, except errors that are GilkErrors already."""
    try:
        return action()
    except GilkError:
        raise
    except OSError as error:
        raise meaning(error) from None
