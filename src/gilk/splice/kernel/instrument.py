# SPDX-License-Identifier: LGPL-2.1-or-later
"""Instruments as machine code for the kernel.

They run in tasks, interrupts and NMIs, anywhere, and may be preempted and
moved to another CPU between any two instructions. A count is one instruction.
A record is reserved by a compare-and-exchange on a word of one CPU that holds
an address, so that it fails after a move; from then on only that address is
used. The field that is filled last commits (native/abi/ilk_abi.h).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache

from gilk.analysis.model import EVERYTHING
from gilk.arch import asm
from gilk.arch.effects import CALLER_SAVED
from gilk.splice.code import CodeBuilder, Template
from gilk.splice.frame import FLAGS, enter_c, leave_c
from gilk.splice.host import Context, Host
from gilk.splice.instrument import SavesAll
from gilk.splice.kernel.frame import RAX_BIT, RDX_BIT, WORD, borrow, dead, enter, kept, leave, scratch
from gilk.splice.kernel.host import InterruptMask, RingPlaces
from gilk.splice.recording import ARGUMENTS_CLASS, RECORD_SIZE, STAMP_CLASS
from gilk.values import dataclass

_ARGUMENTS = (asm.RDI, asm.RSI, asm.RDX, asm.RCX, asm.R8, asm.R9)
_ARGUMENT_BITS = sum(1 << reg for reg in _ARGUMENTS)
_IID, _WHO, _BODY = 8, 12, 16  # offsets in a record
_SP_BITS_FROM, _SP_BITS_TO = 4, 22  # the stack pointer from this bit on lies in `who` from that bit on; pid lies below


@dataclass(frozen=True, slots=True)
class KernelCount:
    """Adds one to the counter at ``gs``, an offset from GS, of the CPU that runs it."""

    gs: int

    @property
    def reads(self) -> int:
        return 0

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        live = context.live
        back: list[bytes] = []
        if live & FLAGS:
            undo, taken = borrow(builder, asm.RAX, live, RAX_BIT)
            builder.emit(asm.LAHF + asm.SETO_AL)
            back.append(asm.ADD_AL_127 + asm.SAHF + undo)
            live |= taken | RAX_BIT
        if -(1 << 31) <= self.gs < 1 << 31:
            builder.emit(asm.inc_gs(self.gs))
        else:
            back.append(self._far(builder, live))
        builder.emit(b"".join(reversed(back)))

    def _far(self, builder: CodeBuilder, live: int) -> bytes:
        """Append the increment of a counter that a displacement cannot reach; returns the code to run afterwards."""
        reg = dead(live)
        back = b""
        if reg is None:
            reg = asm.R11
            builder.emit(asm.push(reg))
            back = asm.pop(reg)
        builder.emit(asm.move_immediate64(reg, self.gs) + asm.inc_gs_at(reg))
        return back


class _Record(ABC):
    """An instrument whose code is, but for its number, the same at all points where the same registers are live."""

    __slots__ = ()
    iid: int
    rings: RingPlaces

    @property
    def reads(self) -> int:
        return 0

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        builder.insert(_template(type(self)._write, self.rings, context.live, context.pushed), self.iid)

    @staticmethod
    @abstractmethod
    def _write(builder: CodeBuilder, rings: RingPlaces, live: int, pushed: int) -> None:
        """Write the code with any number, and mark the hole for the number."""


@lru_cache(maxsize=4096)
def _template(
    write: Callable[[CodeBuilder, RingPlaces, int, int], None], rings: RingPlaces, live: int, pushed: int
) -> Template:
    builder = CodeBuilder()
    write(builder, rings, live, pushed)
    return builder.template()


@dataclass(frozen=True, slots=True)
class KernelStamp(_Record):
    """Records time, iid and `who`: the pid and bits of the stack pointer (16 bytes)."""

    iid: int
    rings: RingPlaces

    @staticmethod
    def _write(builder: CodeBuilder, rings: RingPlaces, live: int, pushed: int) -> None:
        _record(builder, rings, STAMP_CLASS, live, pushed, ())


@dataclass(frozen=True, slots=True)
class KernelStampWithArguments(_Record):
    """Records time, iid, `who`, and the six integer argument registers (64 bytes)."""

    iid: int
    rings: RingPlaces

    @property
    def reads(self) -> int:
        return _ARGUMENT_BITS

    @staticmethod
    def _write(builder: CodeBuilder, rings: RingPlaces, live: int, pushed: int) -> None:
        _record(builder, rings, ARGUMENTS_CLASS, live, pushed, _ARGUMENTS)


@dataclass(frozen=True, slots=True)
class KernelCallWithIid:
    """Calls ``void f(unsigned iid)`` at ``function``; ``clobbers`` are the registers that it may change.

    The function gets no number unless it is ``numbered``; callee.examine tells both.
    """

    function: int
    iid: int
    clobbers: int = CALLER_SAVED
    numbered: bool = True

    @property
    def reads(self) -> int:
        return 0

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        frame = kept(context.live, self.clobbers | self.numbered << asm.RDI | FLAGS)
        enter(builder, frame)
        if self.numbered:
            builder.emit(asm.move_immediate(asm.RDI, self.iid))
        enter_c(builder, context.live)
        builder.external(asm.CALL32, self.function)
        leave_c(builder, context.live)
        leave(builder, frame)


@dataclass(frozen=True, slots=True)
class KernelCallWithRegisters(SavesAll):
    """Calls ``void f(const struct gilk_regs *, unsigned iid)``; the driver's ``thunk`` in between saves all registers.

    ``replaces``: at an entry, where flags are dead, ``f`` may have the patch return to the caller instead of going on.
    It does so by writing 0 to the place where its number was pushed (gilk_return() in
    native/include/kernel/gilk_woven.h).
    """

    function: int
    iid: int
    thunk: int
    replaces: bool = False

    @property
    def reads(self) -> int:
        return EVERYTHING

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        words = (self.iid, self.function, context.pushed, context.address)
        for value in words:
            builder.emit(asm.push_immediate(value))
        builder.external(asm.CALL32, self.thunk)
        if self.replaces:
            self._or_return(builder, WORD * (len(words) - 1), WORD * len(words) + context.pushed)
        builder.emit(asm.lea_stack(asm.RSP, WORD * len(words)))

    @staticmethod
    def _or_return(builder: CodeBuilder, number_at: int, shift: int) -> None:
        """Append the check whether ``f`` asked for a return. ``shift`` is the distance in bytes from the stack pointer
        to the caller's return address.
        """
        replaced = builder.label()
        builder.emit(asm.cmp_stack_zero(number_at))
        builder.local(asm.JZ32, replaced)

        def leave_early() -> None:
            builder.place(replaced)
            builder.emit(asm.lea_stack(asm.RSP, shift) + asm.RET + asm.INT3)

        builder.cold(leave_early)


def _record(
    builder: CodeBuilder, rings: RingPlaces, kind: int, live: int, pushed: int, values: tuple[int, ...]
) -> None:
    """Append the code that reserves a record, fills it and commits it; the iid is the hole. ``values`` are the
    registers to store behind the head.
    """
    at = scratch(live, RAX_BIT | RDX_BIT | 1 << asm.RSP | 1 << asm.R12 | sum(1 << reg for reg in values))
    frame = kept(live, RAX_BIT | RDX_BIT | 1 << at | FLAGS)
    enter(builder, frame)
    done = builder.label()
    _filter(builder, rings, done)
    _reserve(builder, rings, kind, at, done)
    for index, reg in enumerate(values):
        builder.emit(asm.store(reg, at, _BODY + WORD * index))
    builder.emit(asm.RDTSC + asm.store32(asm.RAX, at, 0) + asm.store32(asm.RDX, at, 4))
    _who(builder, rings, frame.depth + pushed)
    builder.emit(asm.store32(asm.RDX, at, _WHO))
    builder.emit(asm.store32_immediate(at, _IID, 0))
    builder.hole()
    builder.place(done)
    leave(builder, frame)


def _filter(builder: CodeBuilder, rings: RingPlaces, done: int) -> None:
    """Append a jump to the label ``done`` that is taken if records of this process are not wanted; overwrites the
    flags, rax and rdx.

    The word at ``rings.filter`` may become 0 at any time.
    """
    filtered, wanted = builder.label(), builder.label()
    builder.emit(asm.cmp_gs_zero(rings.filter))
    builder.local(asm.JNE32, filtered)
    builder.place(wanted)

    def look() -> None:
        builder.place(filtered)
        builder.emit(asm.load_gs(asm.RDX, rings.filter) + asm.test(asm.RDX))
        builder.local(asm.JZ32, wanted)
        builder.emit(asm.load_gs(asm.RAX, rings.current) + asm.load32(asm.RAX, asm.RAX, rings.tgid))
        if rings.interrupts is None:
            builder.emit(asm.bit_test(asm.RDX, asm.RAX))
            builder.local(asm.JC32, wanted)
        else:
            _or_interrupt(builder, rings.interrupts, wanted, done)
        builder.local(asm.JMP32, done)

    builder.cold(look)


def _or_interrupt(builder: CodeBuilder, interrupts: InterruptMask, wanted: int, done: int) -> None:
    """Append the test of the process in eax against the bit map at rdx; bit 0, that of the idle task, stands for
    interrupts.
    """
    idle = builder.label()
    builder.emit(asm.test(asm.RAX))
    builder.local(asm.JZ32, idle)
    builder.emit(asm.bit_test(asm.RDX, asm.RAX))
    builder.local(asm.JC32, wanted)
    builder.place(idle)
    builder.emit(asm.test_byte_immediate(asm.RDX, 1))
    builder.local(asm.JZ32, done)
    builder.emit(asm.test_gs32_immediate(interrupts.word, interrupts.mask))
    builder.local(asm.JNE32, wanted)


def _reserve(builder: CodeBuilder, rings: RingPlaces, kind: int, at: int, done: int) -> None:
    """Append code that puts the address of a new record into ``at``; overwrites rax and the flags. It jumps to the
    label ``done`` if there is no room.
    """
    again, slow, filled = builder.label(), builder.label(), builder.label()
    builder.emit(asm.load_gs(asm.RAX, rings.wpos[kind]))
    builder.place(again)
    builder.emit(asm.test_eax(rings.chunk - 1))
    builder.local(asm.JZ32, slow)
    builder.emit(asm.lea(at, asm.RAX, RECORD_SIZE[kind]))
    builder.emit(asm.cmpxchg_gs(at, rings.wpos[kind]))
    builder.local(asm.JNE32, again)
    builder.place(filled)
    builder.emit(asm.move(at, asm.RAX))

    def refill() -> None:
        builder.place(slow)
        builder.emit(asm.move_immediate(asm.RAX, kind + 4 * rings.set))
        builder.external(asm.CALL32, rings.reserve)
        builder.emit(asm.test(asm.RAX))
        builder.local(asm.JNE32, filled)
        builder.local(asm.JMP32, done)

    builder.cold(refill)


def _who(builder: CodeBuilder, rings: RingPlaces, depth: int) -> None:
    """Append code that puts the pid, and bits of the stack pointer before it moved by ``depth`` bytes, into edx;
    overwrites rax.
    """
    builder.emit(asm.load_gs(asm.RDX, rings.current) + asm.load32(asm.RDX, asm.RDX, rings.pid))
    builder.emit(asm.lea_stack(asm.RAX, depth))
    builder.emit(asm.shift_right(asm.RAX, _SP_BITS_FROM) + asm.shift_left(asm.RAX, _SP_BITS_TO))
    builder.emit(asm.or_into(asm.RDX, asm.RAX))
