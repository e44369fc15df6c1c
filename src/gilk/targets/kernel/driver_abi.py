# SPDX-License-Identifier: LGPL-2.1-or-later
"""The messages of /dev/ilk as bytes. native/abi/ilk_abi.h is the reference; tests compare the two."""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Final

from gilk.values import dataclass

PROTOCOL: Final = 9
HELLO, SYMBOLS, ARENA, FILL, COUNTERS, READ, RECORDS, APPLY, UNDO, STATUS, FILTER = (
    0xC008E100 | n for n in range(1, 12)
)
HOLD: Final = 0xC008E100 | 27
SHARE: Final = 0xC008E100 | 32
ALL_CPUS: Final = 0xFFFFFFFF
CLASSES: Final = 4
RECORD_BYTES: Final = (16, 32, 64, 256)  # by class
READ_MIN: Final = 65536
WINDOW: Final = 24  # bytes of a unit's window at most
NEAR: Final = 1

HEAD: Final = struct.Struct("<II")
HELLO_BODY: Final = struct.Struct("<IIQQIIIIqIIIiQQ64s")
SYMBOL: Final = struct.Struct("<24sQ")
SYMBOL_ROOM: Final = 32
BLOCK: Final = struct.Struct("<qIIII")
UNIT: Final = struct.Struct("<QQQIBBBBIIQ24s24s")
RESULT: Final = struct.Struct("<II")
STATUS_BODY: Final = struct.Struct("<IIQQQQQQQ4Q4Q")
CHUNK: Final = struct.Struct("<IIIIQ")
RECORDS_BODY: Final = struct.Struct("<4I4I4qq4Q8Q4Q")
SHARE_BODY: Final = struct.Struct("<QQiI")
FLIGHT: Final = 1
FILTER_BODY: Final = struct.Struct("<IIII")
TGIDS: Final = 1 << 22
FILTER_ON, FILTER_ONLY, FILTER_CLEAR, FILTER_INTERRUPTS = 1, 2, 4, 8
IN_INTERRUPT: Final = 0x00FF0100  # bits of the word at %gs:preempt_gs


class DriverUnitKind(enum.IntEnum):
    """The kind of a unit: which bytes it writes."""

    SINGLE = 1  # a jump or call over one instruction
    MULTI = 2  # a jump over several
    SHORT = 3  # a 2-byte jump to a pad
    TRAP = 4  # int3
    FENTRY = 5  # through ftrace: the patch is called
    PAD = 6  # a jump that SHORTs lead to


class Verdict(enum.IntEnum):
    """The driver's verdict on a unit."""

    OK = 0
    STALE = 1
    BLACKLIST = 2
    STATIC_KEY = 3
    STATIC_CALL = 4
    FTRACE = 5
    EXCEPTION = 6
    ALTERNATIVE = 7
    BUG = 8
    KPROBE = 9
    OUTSIDE = 10
    INIT = 11
    MODULE = 12
    OVERLAP = 13
    DUPLICATE = 14
    DECODE = 15
    BAD_UNIT = 16
    BAD_BYTES = 17
    BAD_PATCH = 18
    BAD_PAD = 19
    NO_FENTRY = 20
    BUSY = 21
    IN_USE = 22
    UNKNOWN = 23
    GONE = 24
    NO_MEMORY = 25
    LIMIT = 26
    LEADER = 27
    RUN_INTO = 28
    UNREAD = 29


@dataclass(frozen=True)
class DriverUnit:
    """A splice in the kernel. `old` are the bytes that the window must have, `new` its bytes afterwards; for FENTRY
    both are empty. `number` is the client's number for it, from 1. `copy` is the address of the copy of the displaced
    instructions, `pad` the number of the pad that a SHORT jumps to; `several`: a SHORT's window has several
    instructions."""

    number: int
    kind: DriverUnitKind
    address: int
    patch: int
    old: bytes = b""
    new: bytes = b""
    copy: int = 0
    pad: int = 0
    several: bool = False


@dataclass(frozen=True)
class UnitOutcome:
    """The driver's verdict on a unit. `detail`: the address, or the error number, that is to blame; or 0."""

    number: int
    verdict: Verdict
    detail: int = 0


@dataclass(frozen=True)
class Hello:
    """The driver's answer to HELLO: its protocol, limits, and offsets for generated code (struct ilk_hello)."""

    protocol: int
    cpus: int
    message_max: int
    arena_max: int
    counters_max: int
    fast_counters: int
    units_max: int
    chunk: int
    current_gs: int
    pid_offset: int
    tsc_khz: int
    tgid_offset: int
    preempt_gs: int
    text_start: int
    text_end: int
    release: str


@dataclass(frozen=True)
class CounterRange:
    """Counters `first` .. `first + count - 1`; the first is at %gs:gs, the others follow it, 8 bytes each. `near`:
    every offset is a signed 32-bit number."""

    gs: int
    first: int
    count: int
    near: bool

    def offset(self, counter: int) -> int:
        return self.gs + 8 * (counter - self.first)


@dataclass(frozen=True)
class Area:
    """A part of /dev/ilk that can be mapped: its start and size in bytes."""

    offset: int
    size: int


@dataclass(frozen=True)
class Rings:
    """The places of the rings. Generated code uses wpos[class] and filter, offsets from GS, and `chunk`, the bytes of a
    chunk. Processes that map the rings use the rest: `orders` are log2 of a ring's bytes by class, `numbers` offsets in
    `heads`."""

    number: int
    chunk: int
    wpos: tuple[int, ...]
    filter: int
    orders: tuple[int, ...]
    tails: Area
    heads: Area
    records: tuple[Area, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class RingChunk:
    """Committed records of one ring, in the order in which they were reserved; `lost`: records lost in this ring so
    far."""

    cpu: int
    kind: int
    lost: int
    records: bytes


@dataclass(frozen=True)
class DriverStatus:
    """The driver's figures about all clients; ``own_units`` and ``lost`` are this client's (struct ilk_status)."""

    clients: int
    fast_counters: int
    units: int
    own_units: int
    arena_bytes: int
    counters: int
    ring_bytes: int
    traps: int
    missed: int
    lost: tuple[int, ...]  # records lost by this client, by class
    batches: int
    orphans: int
    tsc: int  # the TSC and, in ns, CLOCK_MONOTONIC at one moment
    monotonic: int


def message(body: bytes) -> bytes:
    return HEAD.pack(HEAD.size + len(body), PROTOCOL) + body


def pack_units(units: Iterable[DriverUnit]) -> bytes:
    return b"".join(_pack_unit(unit) for unit in units)


def _pack_unit(unit: DriverUnit) -> bytes:
    length = 5 if unit.kind == DriverUnitKind.FENTRY else len(unit.old)
    flags = 1 if unit.several else 0
    return UNIT.pack(
        *(unit.address, unit.patch, unit.copy, unit.number, unit.kind, min(length, 255), flags, 0),
        *(unit.pad, 0, 0, unit.old[:WINDOW], unit.new[:WINDOW]),
    )


def unpack_outcomes(body: bytes) -> Iterator[UnitOutcome]:
    for row in UNIT.iter_unpack(body):
        yield UnitOutcome(row[3], Verdict(row[9]), row[10])


def unpack_status(body: bytes) -> DriverStatus:
    row = STATUS_BODY.unpack(body)
    values = (*row[:9], row[9:13], *row[13:])
    return DriverStatus(**dict(zip((field.name for field in fields(DriverStatus)), values, strict=True)))


def pack_records(orders: Sequence[int], flight: bool, watermark: int) -> bytes:
    return RECORDS_BODY.pack(*orders, FLIGHT if flight else 0, watermark, *(0,) * 23)


def unpack_rings(body: bytes) -> Rings:
    row = RECORDS_BODY.unpack(body)
    areas = [Area(row[at], row[at + 1]) for at in range(13, 25, 2)]
    return Rings(row[6], row[7], row[8:12], row[12], row[:4], areas[0], areas[1], tuple(areas[2:]), row[25:])


def unpack_chunks(data: bytes) -> Iterator[RingChunk]:
    """The chunks in the bytes that Link.drain() returned. Raises ValueError if they were cut."""
    at = 0
    while at < len(data):
        if len(data) - at < CHUNK.size:
            raise ValueError("records end within a header")
        cpu, kind, size, _, lost = CHUNK.unpack_from(data, at)
        at += CHUNK.size
        if kind >= CLASSES or size > len(data) - at or size % RECORD_BYTES[kind]:
            raise ValueError(f"{size} bytes of records of class {kind}")
        yield RingChunk(cpu, kind, lost, data[at : at + size])
        at += size
