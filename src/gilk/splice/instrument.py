# SPDX-License-Identifier: LGPL-2.1-or-later
"""Instruments as machine code: what a patch does at a point before it goes on.

``Count``, ``Stamp`` and ``Arguments`` are inlined, and write to the memory of
one client if they are given a ``Part``; ``Call`` runs a compiled C
function. Every one first makes sure that GS points at the block of this very
thread (native/abi/gilk_abi.h); the first hit of a thread takes the slow way
and claims one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Protocol

from gilk.arch import asm
from gilk.splice.code import CodeBuilder, Template
from gilk.splice.frame import DIRECTION, FLAGS, RED_ZONE, Frame, enter, enter_c, frame_for, leave, leave_c, scratch
from gilk.values import dataclass

_OWNER = 0
_PARTS = 2048
_RINGS, _RING_STRIDE = 64, 32
_WPOS, _LIMIT, _DROPS = 0, 8, 16
_CALLER_SAVED = sum(1 << reg for reg in (0, 1, 2, 6, 7, 8, 9, 10, 11))
_ARGUMENTS = sum(1 << reg for reg in (asm.RDI, asm.RSI, asm.RDX, asm.RCX, asm.R8, asm.R9))
_EVERYTHING = FLAGS | (1 << 16) - 1
STAMP_CLASS, ARGUMENTS_CLASS = 0, 2
RECORD_SIZE = (16, 32, 64, 256)


@dataclass(frozen=True, slots=True)
class SideThunks:
    """Addresses of the ways into C by the thread's side stack, and of the claim that takes hardly any stack."""

    claim: int
    registers: int
    vector: int
    plain: int
    values: int


@dataclass(frozen=True, slots=True)
class Host:
    """Addresses in the target that instruments refer to, for one arena, and the shape of a block.

    ``rings[c]`` is (offset, size) in bytes of the ring of record class c in a block.
    ``assume_live`` is saved everywhere, whatever analysis says: a handler of faults may look at any register.
    ``templates`` keeps what inlined instruments look like here, by kind, liveness and depth of the stack.
    ``red_zone``: so many bytes below the stack pointer are the program's. ``side``: where C does not run on the stack
    of the program. ``side_thunks``: what ``aside`` takes it from.
    """

    key: int
    claim: int
    counters: int
    rings: tuple[tuple[int, int], ...]
    thunk: int = 0
    thunk_vector: int = 0
    base: int = 0
    assume_live: int = 0
    red_zone: int = RED_ZONE
    side: SideThunks | None = None
    side_thunks: SideThunks | None = None
    templates: dict[tuple[object, ...], Template] = field(default_factory=dict, compare=False, repr=False)

    def aside(self, red_zone: int) -> Host:
        """For code whose stack may have room for some words only."""
        side = self.side_thunks
        return replace(self, red_zone=red_zone, side=side, claim=side.claim if side else self.claim)


@dataclass(frozen=True, slots=True)
class Part:
    """Memory of one client among several (native/abi/gilk_abi.h): its number, and the shape of a block as in `Host`."""

    number: int
    counters: int
    rings: tuple[tuple[int, int], ...]

    @property
    def at(self) -> int:
        """Where a block says how far behind it the block in that memory lies."""
        return _PARTS + 8 * self.number


@dataclass(frozen=True, slots=True)
class Context:
    """Where an instrument is put: what is live there, the original address, bytes pushed by the splice."""

    live: int
    address: int
    pushed: int = 0


class Instrument(Protocol):
    """Anything that can be put at a point."""

    @property
    def reads(self) -> int:
        """Registers and flags whose values it takes: instruments that run before it at the same point keep them."""
        ...

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None: ...


class _Inlined(ABC):
    """An instrument that is the same wherever the same is live, but for one number."""

    __slots__ = ()
    part: Part | None

    @property
    def reads(self) -> int:
        return 0

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        key = (type(self), self.part, context.live, context.pushed, host.red_zone, host.claim)
        template = host.templates.get(key)
        if template is None:
            fresh = CodeBuilder()
            self._write(fresh, host, context)
            template = host.templates[key] = fresh.template()
        builder.insert(template, self._number(host))

    @abstractmethod
    def _number(self, host: Host) -> int: ...

    @abstractmethod
    def _write(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        """The code with any number, and where that is."""


@dataclass(frozen=True, slots=True)
class Count(_Inlined):
    """Adds one to counter ``slot`` of this thread."""

    slot: int
    part: Part | None = None

    def _number(self, host: Host) -> int:
        return (self.part or host).counters + 8 * self.slot

    def _write(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        avoid = 1 << asm.RSP | (1 << asm.RAX if context.live & FLAGS else 0) | (1 << asm.R12 if self.part else 0)
        reg = scratch(context.live, avoid)
        frame = frame_for(context.live, 1 << reg | FLAGS, red_zone=host.red_zone)
        enter(builder, frame)
        skip = _own_block(builder, host, reg)
        if self.part is None:
            builder.emit(asm.inc_gs(0))
        else:
            builder.emit(asm.load_gs(reg, self.part.at) + asm.inc_gs_based(reg, 0))
        builder.hole()
        builder.place(skip)
        leave(builder, frame)


@dataclass(frozen=True, slots=True)
class Stamp(_Inlined):
    """Records time, iid and the low half of the stack pointer (16 bytes)."""

    iid: int
    part: Part | None = None

    def _number(self, host: Host) -> int:
        return self.iid

    def _write(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        frame = frame_for(context.live, _RECORDER, red_zone=host.red_zone)
        enter(builder, frame)
        skip = _own_block(builder, host, asm.RCX)
        _record(builder, host, self.part, STAMP_CLASS, frame.size + context.pushed)
        builder.place(skip)
        leave(builder, frame)


@dataclass(frozen=True, slots=True)
class Arguments(_Inlined):
    """Records time and the six integer argument registers (64 bytes)."""

    iid: int
    part: Part | None = None

    @property
    def reads(self) -> int:
        return _ARGUMENTS

    def _number(self, host: Host) -> int:
        return self.iid

    def _write(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        frame = frame_for(context.live, _RECORDER, 1 << asm.RCX | 1 << asm.RDX, host.red_zone)
        enter(builder, frame)
        skip = _own_block(builder, host, asm.RCX)
        _record(builder, host, self.part, ARGUMENTS_CLASS, frame.size + context.pushed, _store_arguments(frame))
        builder.place(skip)
        leave(builder, frame)


@dataclass(frozen=True, slots=True)
class Call:
    """Calls ``void f(unsigned iid)`` at ``function``; ``clobbers`` are the registers it may change."""

    function: int
    iid: int
    clobbers: int = _CALLER_SAVED

    @property
    def reads(self) -> int:
        return 0

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        if host.side is not None:
            _aside(builder, host, context, host.side.plain, self.function, self.iid)
            return
        with _around_c(builder, host, context, self.clobbers, asm.RDI):
            builder.emit(asm.move_immediate(asm.RDI, self.iid))
            builder.hole()
            builder.external(asm.CALL32, self.function)


@dataclass(frozen=True, slots=True)
class CallWithValues:
    """Calls ``void f(rdi, rsi, rdx, rcx, r8, r9, unsigned iid, rax)``: what registers hold is handed over where it is.

    ``clobbers`` are the registers it may change.
    """

    function: int
    iid: int
    clobbers: int = _CALLER_SAVED

    @property
    def reads(self) -> int:
        return _ARGUMENTS | 1 << asm.RAX

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        if host.side is not None:
            _aside(builder, host, context, host.side.values, self.function, self.iid)
            return
        flags = context.live & FLAGS  # which go through rax
        with _around_c(builder, host, context, self.clobbers, asm.R11, 1 << asm.RAX if flags else 0) as frame:
            if flags:
                below = 8 if context.live & DIRECTION else 0
                builder.emit(asm.load_stack(asm.RAX, frame.slot(asm.RAX) + below))
            builder.emit(asm.push(asm.RAX) + asm.push_immediate(self.iid))
            builder.hole()
            builder.external(asm.CALL32, self.function)
            builder.emit(asm.lea_stack(asm.RSP, 2 * 8))


@dataclass(frozen=True, slots=True)
class CallWithRegisters:
    """Calls ``void f(const struct gilk_regs *, unsigned iid)`` through a thunk of the runtime.

    The thunk saves everything, vector state too when the function ``calls_out``
    into the target's own code. ``roomy``: the stack there has room for C in any
    program, as that of a signal handler.
    """

    function: int
    iid: int
    calls_out: bool
    roomy: bool = False

    @property
    def reads(self) -> int:
        return _EVERYTHING

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        if host.side is not None and not self.roomy:
            thunk = host.side.vector if self.calls_out else host.side.registers
            _aside(builder, host, context, thunk, self.function, self.iid)
            return
        builder.emit(asm.lea_stack(asm.RSP, -RED_ZONE))
        for value in (self.iid, self.function - host.base, RED_ZONE + context.pushed):
            builder.emit(asm.push_immediate(value))
        builder.emit(asm.push_immediate(context.address))
        builder.emit(asm.store_stack_immediate(4, context.address >> 32))
        builder.external(asm.CALL32, host.thunk_vector if self.calls_out else host.thunk)
        builder.emit(asm.lea_stack(asm.RSP, RED_ZONE + 4 * 8))


def _aside(builder: CodeBuilder, host: Host, context: Context, thunk: int, function: int, iid: int) -> None:
    """Call ``function`` on the thread's side stack (native/host/process.S has what is expected of the patch)."""
    below = host.red_zone
    builder.emit(asm.lea_stack(asm.RSP, -below) if below else b"")
    builder.emit(asm.push_immediate(iid))
    builder.hole()
    builder.emit(asm.push_immediate(below + context.pushed))
    builder.word(asm.PUSH32, asm.STORE_AT_4, context.address)
    builder.external(asm.CALL32, thunk)
    builder.emit(asm.JMP8 + bytes((len(asm.CALL32) + 4,)))
    builder.external(asm.CALL32, function)
    builder.emit(asm.lea_stack(asm.RSP, 3 * 8 + below))


@contextmanager
def _around_c(
    builder: CodeBuilder, host: Host, context: Context, clobbers: int, spare: int, always: int = 0
) -> Iterator[Frame]:
    """Code that is emitted meanwhile calls C, beyond the red zone, in a thread that has its block. The frame keeps
    ``always``, and of ``clobbers`` and ``spare``, a register, all that is live.
    """
    frame = frame_for(context.live, clobbers | 1 << spare | FLAGS, always)
    frame = Frame(frame.saved, frame.flags, frame.size or RED_ZONE)
    enter(builder, frame)
    skip = _own_block(builder, host, spare)
    enter_c(builder, context.live)
    yield frame
    leave_c(builder, context.live)
    builder.place(skip)
    leave(builder, frame)


_RECORDER = 1 << asm.RAX | 1 << asm.RCX | 1 << asm.RDX | FLAGS


def _own_block(builder: CodeBuilder, host: Host, reg: int) -> int:
    """Compare this thread with the owner of the block; the returned label is where a failed claim goes.

    Overwrites ``reg`` and the flags.
    """
    retry, slow, skip = builder.label(), builder.label(), builder.label()
    builder.place(retry)
    builder.emit(asm.rdfsbase(reg))
    builder.external(asm.add_rip(reg), host.key)
    builder.emit(asm.cmp_gs(reg, _OWNER))
    builder.local(asm.JNE32, slow)

    def claim() -> None:
        builder.place(slow)
        builder.emit(asm.lea_stack(asm.RSP, -host.red_zone) if host.red_zone else b"")
        builder.external(asm.CALL32, host.claim)
        builder.emit(asm.lea_stack(asm.RSP, host.red_zone) if host.red_zone else b"")
        builder.local(asm.JC32, skip)
        builder.local(asm.JMP32, retry)

    builder.cold(claim)
    return skip


def _store_arguments(frame: Frame) -> dict[int, int | None]:
    """For each argument register, in order: the slot it was saved in, None when it still holds its value."""
    order = (asm.RDI, asm.RSI, asm.RDX, asm.RCX, asm.R8, asm.R9)
    return {reg: frame.slot(reg) if reg in frame.saved else None for reg in order}


def _record(
    builder: CodeBuilder,
    host: Host,
    part: Part | None,
    kind: int,
    depth: int,
    values: dict[int, int | None] | None = None,
) -> None:
    """Reserve, fill, commit; the iid is the hole. Overwrites rax, rcx, rdx and the flags.

    ``depth`` is how far rsp has moved.
    """
    offset, size = (part or host).rings[kind]
    full, done = builder.label(), builder.label()
    _reserve(builder, part, kind, full)
    builder.emit(asm.move(asm.RCX, asm.RAX) + asm.and_immediate(asm.RCX, size - 1))
    if part is not None:
        builder.emit(asm.add(asm.RCX, asm.RDX))
    builder.emit(asm.RDTSC + asm.SHL_RDX_32 + asm.OR_RAX_RDX)
    builder.emit(asm.store_gs(asm.RAX, asm.RCX, offset))
    builder.emit(asm.lea_stack(asm.RAX, depth) + asm.store_gs32(asm.RAX, asm.RCX, offset + 12))
    for index, (reg, slot) in enumerate((values or {}).items()):
        if slot is not None:
            builder.emit(asm.load_stack(asm.RAX, slot))
            reg = asm.RAX
        builder.emit(asm.store_gs(reg, asm.RCX, offset + 16 + 8 * index))
    builder.emit(asm.store_gs32_immediate(asm.RCX, offset + 8, 0))
    builder.hole()
    builder.place(done)

    def drop() -> None:
        drops = _RINGS + kind * _RING_STRIDE + _DROPS
        builder.place(full)
        builder.emit(asm.inc_gs(drops) if part is None else asm.inc_gs_based(asm.RDX, drops))
        builder.local(asm.JMP32, done)

    builder.cold(drop)


def _reserve(builder: CodeBuilder, part: Part | None, kind: int, full: int) -> None:
    """A place in a ring: rax is its position, and rdx the way to the block of ``part``; to ``full`` where there is
    none."""
    position = _RINGS + kind * _RING_STRIDE + _WPOS
    limit, again = position - _WPOS + _LIMIT, builder.label()
    if part is None:
        load, compare = asm.load_gs(asm.RAX, position), asm.cmp_gs(asm.RCX, limit)
        exchange = asm.cmpxchg_gs(asm.RCX, position)
    else:
        builder.emit(asm.load_gs(asm.RDX, part.at))
        load, compare = (
            asm.load_gs_based(asm.RAX, asm.RDX, position), asm.cmp_gs_based(asm.RCX, asm.RDX, limit)
        )  # fmt: skip
        exchange = asm.cmpxchg_gs_based(asm.RCX, asm.RDX, position)
    builder.emit(load)
    builder.place(again)
    builder.emit(asm.lea(asm.RCX, asm.RAX, RECORD_SIZE[kind]) + compare)
    builder.local(asm.JA32, full)
    builder.emit(exchange)
    builder.local(asm.JNE32, again)
