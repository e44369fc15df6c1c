# SPDX-License-Identifier: LGPL-2.1-or-later
"""The messages of /dev/ilk about D programs (native/abi/ilk_d_abi.h): a client's program, its sites and its memory."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final

from gilk.errors import TargetError
from gilk.lang.d.kernel_code import KernelCode
from gilk.lang.data import Aggregation, Function
from gilk.lang.ir import Given
from gilk.targets.call_ends import SiteRole
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import WINDOW
from gilk.targets.processor_samples import Counted
from gilk.values import dataclass

PROGRAM, SITES, ATTACH, CLOCK, FIRE, READ, LINES, PUT, STATUS, REAP, FIND, FORCE, ORIGINALS, POINT, MAPPED = (
    0xC008E100 | n for n in range(12, 27)
)
SETTLE: Final = 0xC008E100 | 28
UPROBE: Final = 0xC008E100 | 29
PERF: Final = 0xC008E100 | 30
LINE: Final = 64
SPECULATIONS: Final = 256  # the most that a program may have
SYSTEM_CALLS: Final = 512
EVERY_CPU: Final = 1
NO_USER: Final = 2
NO_KERNEL: Final = 4
FIELDS: Final = 8
TRY: Final = 16
ALWAYS: Final = 1
DEEP: Final = 1
EDGE: Final = 2
BIOS: Final = 4
INSTRUCTION: Final = 15  # bytes, at the most
NOWHERE: Final = -1
PROGRAM_BODY: Final = struct.Struct("<12I")
AGGREGATION: Final = struct.Struct("<IIIIqqq")
ATTACH_BODY: Final = struct.Struct("<IIIIIIIIQQ")
CHOICE: Final = struct.Struct("<III")
CLOCK_BODY: Final = struct.Struct("<QIIII")
UNWATCHED: Final = 1
DESTRUCTIVE: Final = 2
STOPPED: Final = 62
STATUS_BODY: Final = struct.Struct(f"<QQQQQII{STOPPED}I")
POINT_NAME: Final = 64
POINT_BODY: Final = struct.Struct(f"<IIII{POINT_NAME}s")
PERF_BODY: Final = struct.Struct("<IIQQII")
UPROBE_BODY: Final = struct.Struct(f"<iIIIIIQQ{INSTRUCTION}sBQII")
FIRE_BODY: Final = struct.Struct("<IIII10Q")
LINES_BODY: Final = struct.Struct("<QQQII")
LINE_BODY: Final = struct.Struct(f"<Q{LINE}s")
WORD: Final = struct.Struct("<QQII")
ORIGINAL: Final = struct.Struct(f"<QII{WINDOW}s")
MAPPED_BODY: Final = struct.Struct("<IIII")
MAPPING: Final = struct.Struct("<QQQ256s")
_RANGE: Final = struct.Struct("<QQ")
_LINES_AT_ONCE: Final = 1024
_WORDS_AT_ONCE: Final = 4096
_BYTES_AT_ONCE: Final = 1 << 20
_ORIGINALS_AT_FIRST: Final = 1024
_MAPPINGS: Final = 512  # mappings of an image that are reported
_FUNCTIONS: Final = tuple(Function)
_OF_TRACEFS: Final = 2  # PERF_TYPE_TRACEPOINT


class CodeVerdict(IntEnum):
    """The driver's verdict on the code of a program."""

    SOUND = 0
    BAD_FORM = 1
    BAD_FRAME = 2
    BAD_BRANCH = 3
    BAD_TARGET = 4
    BAD_CALL = 5
    BAD_END = 6
    BAD_ENTRY = 7
    TOO_LONG = 8
    BAD_DEED = 9


class SiteKind(IntEnum):
    """The event at a site, which determines where its arguments are."""

    ENTRY = 0
    RETURN = 1
    CALL_BEGINS = 2
    CALL_ENDS = 3


@dataclass(frozen=True)
class KernelFire:
    """A probe that fires at a site in the kernel: ``start`` is the address of its function, ``address`` that of the
    point. ``deep``: arg6 to arg9 are wanted. ``choice``: for a site of system calls, rows of (number of the system
    call, group to run, probe)."""

    site: int
    kind: SiteKind
    group: int = 0
    probe: int = 0
    start: int = 0
    address: int = 0
    deep: bool = False
    role: SiteRole = SiteRole.FIRES
    choice: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True)
class UserFire:
    """A probe that fires where processes execute an instruction of a file. ``path``: the file; ``offset``: of the
    instruction in it; ``start``: of its function. ``content``: the bytes there, as many as an instruction may have.
    ``edge``: whether the function has nothing but the return address on its stack there. ``processes``: their pids;
    empty: all. ``semaphore``: the offset in the file of a 16-bit counter of listeners; 0: none; NOWHERE: the counter is
    not in the file's data. ``given``: the arguments that the probe has instead of a function's."""

    path: str
    kind: SiteKind
    offset: int
    start: int
    content: bytes
    edge: bool
    processes: tuple[int, ...] = ()
    group: int = 0
    probe: int = 0
    deep: bool = False
    semaphore: int = 0
    given: Given | None = None
    role: SiteRole = SiteRole.FIRES


@dataclass(frozen=True)
class ProgramStatus:
    """``nested``: how often a group did not run because another was running at the same level; ``shallow``: the same
    for want of stack. ``shared``: how many programs of others are attached to the client's sites. ``wall``: ns from
    1970 to CLOCK_MONOTONIC's 0. ``aborted``: 1 if the driver has ended the program because its client had been silent
    for too long. ``stopped``: the processes that the program has stopped; ``more``: there are others."""

    nested: int
    shallow: int
    shared: int
    wall: int
    aborted: int
    stopped: tuple[int, ...] = ()
    more: bool = False


@dataclass(frozen=True)
class ToldMapping:
    """A mapping of a file from which a process executes code. ``path`` is empty where it is not known."""

    start: int
    end: int
    offset: int
    path: bytes


@dataclass(frozen=True)
class ProcessImage:
    """The code that a process has mapped since it executed a program; ``number`` is the driver's number for that.
    ``left_out``: how many mappings are missing. ``lost``: how many such images the driver could not note so far, for
    want of room."""

    number: int
    mappings: tuple[ToldMapping, ...]
    left_out: int
    lost: int


class DriverProgram:
    """The D program of a driver's client. Methods raise TargetError as Driver does."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def load(
        self, code: KernelCode, layout: Sequence[int], clausetime: int, watched: bool = True
    ) -> tuple[CodeVerdict, int]:  # fmt: skip
        """Load a program; returns the verdict on its code, and the byte of code, or the group, that is to blame."""
        body = self._driver.ask(PROGRAM, pack_program(code, layout, clausetime, watched))
        row = PROGRAM_BODY.unpack_from(body)
        return CodeVerdict(row[9]), row[10]

    def sites(self, count: int) -> int:
        """Reserve ``count`` consecutive numbers for sites; returns the first."""
        return int.from_bytes(self._driver.ask(SITES, struct.pack("<II", count, 0))[4:8], "little")

    def find(self, places: Iterable[tuple[int, SiteKind]]) -> list[int]:
        """For each point, the number of a site of any client that is in force there; 0: there is none."""
        bodies = self._driver.ask_all(FIND, [struct.pack("<QII", address, kind, 0) for address, kind in places])
        return [int.from_bytes(body[12:16], "little") for body in bodies]

    def force(self, sites: Sequence[int]) -> None:
        """Say that these sites are in force, so that other clients find them."""
        self._driver.ask(FORCE, struct.pack(f"<II{len(sites)}I", len(sites), 0, *sites))

    def attach(self, fires: Iterable[KernelFire]) -> None:
        self._driver.ask_all(ATTACH, map(_pack_fire, fires))

    def clock(self, period: int, group: int, probe: int, everywhere: bool) -> None:
        """Have a group run each ``period`` ns, on one processor or ``everywhere``, on each of them."""
        self._driver.ask(CLOCK, CLOCK_BODY.pack(period, group, probe, EVERY_CPU * everywhere, 0))

    def point(self, name: str, group: int, probe: int, deep: bool, bios: bool = False) -> None:
        """Have a group run at a tracepoint. ``deep``: arguments from the sixth on are wanted. ``bios``: the group runs
        for each bio that ends with the request. Raises TargetError, also where there is no tracepoint of that name."""
        encoded = name.encode("utf-8", "surrogateescape")[: POINT_NAME - 1]
        self._driver.ask(POINT, POINT_BODY.pack(group, probe, DEEP * deep | BIOS * bios, 0, encoded))

    def count(self, event: Counted, group: int, probe: int) -> None:
        """Have a group run on each processor, or on one, each time that it has counted so many events."""
        self._driver.ask(PERF, pack_counted(event, group, probe))

    def record(self, number: int, group: int, probe: int) -> None:
        """Have a group run at each event of tracefs with that number; arg0 is the address of its record."""
        self._driver.ask(PERF, PERF_BODY.pack(_OF_TRACEFS, EVERY_CPU | FIELDS, number, 1, group, probe))

    def uprobe(self, fire: UserFire) -> None:
        """Have a group run where processes execute an instruction of a file. Raises OSError if the file cannot be
        opened, or the driver or its kernel refuse the place; TargetError."""
        content = fire.content[:INSTRUCTION]
        body = UPROBE_BODY.pack(
            -1, fire.kind, fire.group, fire.probe, DEEP * fire.deep | EDGE * fire.edge, len(fire.processes),
            fire.offset, fire.start, content, len(content), fire.semaphore, fire.role, 0,
        )  # fmt: skip
        numbers = struct.pack(f"<{len(fire.processes)}I", *fire.processes)
        self._driver.ask_about(fire.path, UPROBE, 0, body + numbers)

    def fire(self, group: int, probe: int, arguments: Sequence[int] = (), always: bool = False) -> None:
        given = [value & (1 << 64) - 1 for value in (*arguments, *(0,) * (10 - len(arguments)))]
        self._driver.ask(FIRE, FIRE_BODY.pack(group, probe, ALWAYS * always, 0, *given))

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The contents of ranges (offset, size) of the program's memory."""
        head = struct.pack("<II", len(ranges), 0) + b"".join(_RANGE.pack(*one) for one in ranges)
        body = self._driver.ask(READ, head + bytes(sum(size for _, size in ranges)))
        found, at = [], len(head)
        for _, size in ranges:
            found.append(body[at : at + size])
            at += size
        return found

    def read_long(self, offset: int, size: int) -> bytes:
        """The contents of a range of the program's memory that may be too long for one message."""
        starts = range(offset, offset + size, _BYTES_AT_ONCE)
        return b"".join(self.read([(at, min(_BYTES_AT_ONCE, offset + size - at))])[0] for at in starts)

    def lines(self, offset: int, size: int) -> Iterator[tuple[int, bytes]]:
        """The lines (offset, LINE bytes) of a range in which a byte is not zero."""
        end = offset + size
        while offset < end:
            head = LINES_BODY.pack(offset, end - offset, 0, _LINES_AT_ONCE, 0)
            body = self._driver.ask(LINES, head + bytes(_LINES_AT_ONCE * LINE_BODY.size))
            _, _, following, _, count = LINES_BODY.unpack_from(body)
            yield from LINE_BODY.iter_unpack(body[LINES_BODY.size : LINES_BODY.size + count * LINE_BODY.size])
            offset = following

    def put(self, words: Sequence[tuple[int, int, int]]) -> None:
        """Write words, (offset, value, width in bytes), to the program's memory."""
        for start in range(0, len(words), _WORDS_AT_ONCE):
            some = words[start : start + _WORDS_AT_ONCE]
            rows = b"".join(WORD.pack(offset, value, width, 0) for offset, value, width in some)
            self._driver.ask(PUT, struct.pack("<II", len(some), 0) + rows)

    def status(self) -> ProgramStatus:
        nested, shallow, shared, wall, aborted, count, _, *stopped = STATUS_BODY.unpack(
            self._driver.ask(STATUS, bytes(STATUS_BODY.size))
        )
        return ProgramStatus(nested, shallow, shared, wall, aborted, tuple(stopped[:count]), count > STOPPED)

    def image(self) -> ProcessImage | None:
        """An image whose code a clause has reported, and which has mapped code since it was last returned; None if
        there is none."""
        body = self._driver.ask(MAPPED, MAPPED_BODY.pack(_MAPPINGS, 0, 0, 0) + bytes(_MAPPINGS * MAPPING.size))
        _, count, number, lost = MAPPED_BODY.unpack_from(body)
        if not number:
            return None
        told = min(count, _MAPPINGS)
        rows = MAPPING.iter_unpack(body[MAPPED_BODY.size : MAPPED_BODY.size + told * MAPPING.size])
        mappings = tuple(ToldMapping(start, end, at, path.partition(b"\0")[0]) for start, end, at, path in rows)
        return ProcessImage(number, mappings, count - told, lost)

    def settle(self) -> int:
        """Move the records of committed speculations that their clauses have left behind to the other records; returns
        how many records."""
        return int.from_bytes(self._driver.ask(SETTLE, bytes(8)), "little")

    def reap(self) -> int:
        """Free the thread-local variables of tasks that have ended; returns how many."""
        return int.from_bytes(self._driver.ask(REAP, bytes(8)), "little")


def pack_counted(event: Counted, group: int = 0, probe: int = 0, flags: int = 0) -> bytes:
    """An event as the body of the PERF message."""
    flags |= EVERY_CPU * event.everywhere | NO_USER * (not event.user) | NO_KERNEL * (not event.kernel)
    return PERF_BODY.pack(event.type, flags, event.number, event.period, group, probe)


def try_to_count(driver: Driver, event: Counted) -> None:
    """Raises TargetError if the driver's machine does not count such events."""
    driver.ask(PERF, pack_counted(event, flags=TRY))


def originals(driver: Driver) -> list[tuple[int, bytes]]:
    """(address, original bytes) of all code that units of all clients have overwritten, in the order in which to put
    them back."""
    room = _ORIGINALS_AT_FIRST
    while True:
        try:
            body = driver.ask(ORIGINALS, struct.pack("<II", room, 0) + bytes(room * ORIGINAL.size))
            break
        except TargetError:
            room *= 8
            if room > driver.hello.units_max:
                raise
    count = int.from_bytes(body[4:8], "little")
    rows = ORIGINAL.iter_unpack(body[8 : 8 + count * ORIGINAL.size])
    return [(address, data[:length]) for address, length, _, data in rows]


def pack_program(code: KernelCode, layout: Sequence[int], clausetime: int, watched: bool = True) -> bytes:
    """A program as the body of the PROGRAM message. ``layout``: the members of struct gd_layout."""
    edges = [edge for one in code.aggregations for edge in _edges(one)]
    head = PROGRAM_BODY.pack(
        (UNWATCHED | DESTRUCTIVE) * (not watched),
        code.frame, len(code.code), len(code.entries), len(code.aggregations), len(edges), len(code.constants),
        len(code.names), clausetime, 0, 0, 0,
    )  # fmt: skip
    return b"".join((
        head,
        struct.pack(f"<{len(layout)}Q", *layout),
        *pack_rows(code.aggregations),
        struct.pack(f"<{len(edges)}Q", *edges),
        struct.pack(f"<{len(code.entries)}I", *code.entries),
        struct.pack(f"<{len(code.names)}I", *code.names),
        code.constants,
        code.code,
    ))  # fmt: skip


def _edges(one: Aggregation) -> tuple[int, ...]:
    return one.what.edges if one.what.function is Function.LLQUANTIZE else ()


def pack_rows(aggregations: Sequence[Aggregation]) -> Iterator[bytes]:
    """The aggregations as rows of the message, in their order."""
    first = 0
    for one in aggregations:
        what, edges = one.what, len(_edges(one))
        function = _FUNCTIONS.index(what.function)
        limits = (what.low, what.high, what.step) if what.function is Function.LQUANTIZE else (0, 0, 1)
        yield AGGREGATION.pack(function, one.key_size, first, edges, *limits)
        first += edges


def _pack_fire(fire: KernelFire) -> bytes:
    body = ATTACH_BODY.pack(
        fire.site, fire.kind, fire.group, fire.probe, len(fire.choice), DEEP * fire.deep, fire.role, 0,
        fire.start, fire.address,
    )  # fmt: skip
    return body + b"".join(CHOICE.pack(*one) for one in fire.choice)
