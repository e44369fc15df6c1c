# SPDX-License-Identifier: LGPL-2.1-or-later
"""Instruments as machine code: the code that a patch runs at a point before it goes on.

``Count``, ``Stamp`` and ``StampWithArguments`` are inlined; given a ``ClientPart``, they write to the memory of that
one client. The others call a compiled C function. Each instrument first makes sure that GS points at the block of the
current thread (native/abi/gilk_abi.h); at its first hit a thread takes the slow way and claims a block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from gilk.analysis.model import EVERYTHING
from gilk.arch import asm
from gilk.arch.effects import CALLER_SAVED
from gilk.image.value_place import ValuePlace
from gilk.splice.code import CodeBuilder
from gilk.splice.frame import DIRECTION, FLAGS, RED_ZONE, Frame, enter, enter_c, frame_for, leave, leave_c, scratch
from gilk.splice.host import ClientPart, Context, Host
from gilk.splice.recording import ARGUMENTS_CLASS, RECORDER, STAMP_CLASS, load_arguments, load_places, own_block, record
from gilk.values import dataclass

_ARGUMENTS = sum(1 << reg for reg in (asm.RDI, asm.RSI, asm.RDX, asm.RCX, asm.R8, asm.R9))


class Instrument(Protocol):
    """Anything that can be put at a point."""

    @property
    def reads(self) -> int:
        """The registers and flags whose values the instrument reads: instruments that run before it at the same point
        keep them.
        """
        ...

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None: ...


class SavesAll:
    """An instrument whose code saves all registers and flags: it is the same whichever of them are live."""

    __slots__ = ()


class _Inlined(ABC):
    """An instrument whose code is, but for one number, the same at all points where the same registers are live."""

    __slots__ = ()
    part: ClientPart | None

    @property
    def reads(self) -> int:
        return 0

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        key = (self._kind, self.part, context.live, context.pushed, host.red_zone, host.claim)
        template = host.templates.get(key)
        if template is None:
            fresh = CodeBuilder()
            self._write(fresh, host, context)
            template = host.templates[key] = fresh.template()
        builder.insert(template, self._number(host))

    @property
    def _kind(self) -> object:
        """A value that is equal for instruments whose code differs by the number only."""
        return type(self)

    @abstractmethod
    def _number(self, host: Host) -> int: ...

    @abstractmethod
    def _write(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        """Write the code with any number, and mark the hole for the number."""


@dataclass(frozen=True, slots=True)
class Count(_Inlined):
    """Adds one to counter ``slot`` of the current thread."""

    slot: int
    part: ClientPart | None = None

    def _number(self, host: Host) -> int:
        return (self.part or host).counters + 8 * self.slot

    def _write(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        avoid = 1 << asm.RSP | (1 << asm.RAX if context.live & FLAGS else 0) | (1 << asm.R12 if self.part else 0)
        reg = scratch(context.live, avoid)
        frame = frame_for(context.live, 1 << reg | FLAGS, red_zone=host.red_zone)
        enter(builder, frame)
        skip = own_block(builder, host, reg)
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
    part: ClientPart | None = None

    def _number(self, host: Host) -> int:
        return self.iid

    def _write(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        frame = frame_for(context.live, RECORDER, red_zone=host.red_zone)
        enter(builder, frame)
        skip = own_block(builder, host, asm.RCX)
        record(builder, host, self.part, STAMP_CLASS, frame.size + context.pushed)
        builder.place(skip)
        leave(builder, frame)


@dataclass(frozen=True, slots=True)
class StampWithArguments(_Inlined):
    """Records time and the six integer argument registers (64 bytes)."""

    iid: int
    part: ClientPart | None = None

    @property
    def reads(self) -> int:
        return _ARGUMENTS

    def _number(self, host: Host) -> int:
        return self.iid

    def _write(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        frame = frame_for(context.live, RECORDER, 1 << asm.RCX | 1 << asm.RDX, host.red_zone)
        enter(builder, frame)
        skip = own_block(builder, host, asm.RCX)
        record(builder, host, self.part, ARGUMENTS_CLASS, frame.size + context.pushed, load_arguments(frame))
        builder.place(skip)
        leave(builder, frame)


@dataclass(frozen=True, slots=True)
class StampWithValues(_Inlined):
    """Records time and up to six values from their ``places``, in the form of arguments (64 bytes). Where there is no
    place, the record has anything."""

    iid: int
    places: tuple[ValuePlace | None, ...]
    part: ClientPart | None = None

    @property
    def reads(self) -> int:
        return sum({1 << place.base for place in self.places if place is not None and place.base is not None})

    @property
    def _kind(self) -> object:
        return type(self), self.places

    def _number(self, host: Host) -> int:
        return self.iid

    def _write(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        overwritten = 1 << asm.RAX | 1 << asm.RCX | 1 << asm.RDX
        frame = frame_for(context.live, RECORDER, self.reads & overwritten, host.red_zone)
        enter(builder, frame)
        skip = own_block(builder, host, asm.RCX)
        depth = frame.size + context.pushed
        record(builder, host, self.part, ARGUMENTS_CLASS, depth, load_places(frame, self.places, depth))
        builder.place(skip)
        leave(builder, frame)


@dataclass(frozen=True, slots=True)
class CallWithIid:
    """Calls ``void f(unsigned iid)`` at ``function``; ``clobbers`` are the registers that it may change."""

    function: int
    iid: int
    clobbers: int = CALLER_SAVED

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
    """Calls ``void f(rdi, rsi, rdx, rcx, r8, r9, unsigned iid, rax)``: the values of the registers are passed in place.

    ``clobbers`` are the registers that the function may change.
    """

    function: int
    iid: int
    clobbers: int = CALLER_SAVED

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

    The thunk saves all registers, and vector state too if the function ``calls_out`` into the target's own code.
    ``roomy``: the stack at the point has room for C in any program, such as that of a signal handler.
    """

    function: int
    iid: int
    calls_out: bool
    roomy: bool = False

    @property
    def reads(self) -> int:
        return EVERYTHING

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


@dataclass(frozen=True, slots=True)
class CallOfGate(CallWithRegisters):
    """Calls the runtime's function that holds the thread for a while. As long as one may be held there, no patch of the
    function around it can be exchanged."""


def _aside(builder: CodeBuilder, host: Host, context: Context, thunk: int, function: int, iid: int) -> None:
    """Call ``function`` on the thread's side stack (native/host/process.S says what the patch has to push)."""
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
    """Surround code that calls C: it runs beyond the red zone, in a thread that has its block. The frame saves the
    registers ``always``, and all live ones among ``clobbers`` and the register ``spare``.
    """
    frame = frame_for(context.live, clobbers | 1 << spare | FLAGS, always)
    frame = Frame(frame.saved, frame.flags, frame.size or RED_ZONE)
    enter(builder, frame)
    skip = own_block(builder, host, spare)
    enter_c(builder, context.live)
    yield frame
    leave_c(builder, context.live)
    builder.place(skip)
    leave(builder, frame)
