# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice on accesses of memory, as machine code in patches (native/abi/gilk_access.h).

The patch runs the instruction that accesses memory with a place on the stack as its memory operand: an instruction that
reads finds there the value that advice decided on, and advice finds there the value that an instruction has written. So
every instruction keeps its meaning, its registers and its flags.

An instruction that cannot have another operand (an atomic one, a call, a string instruction) runs unchanged, between
two calls of observers.

If the advised instruction may access any memory, the patch first compares the address with the bounds of all memory
that is watched.
"""

from __future__ import annotations

import struct
from enum import Enum, auto
from typing import Final

from iced_x86 import Code, Instruction, MemoryOperand, Register

from gilk.analysis.model import EVERYTHING
from gilk.arch import asm
from gilk.arch.decode import signed
from gilk.splice.code import CodeBuilder
from gilk.splice.frame import DIRECTION, FLAGS, RED_ZONE
from gilk.splice.host import Context, Host
from gilk.splice.instrument import Instrument
from gilk.splice.operand import encoded, exchanged, is_repeated, stepped
from gilk.splice.relocate import relocate
from gilk.values import dataclass

FRAME: Final = 2 * RED_ZONE  # struct gilk_access, and the red zone above it
_ADDRESS, R11, _FLAGS, KEPT, _KEPT_FLAGS, _SIZE = 64, 72, 80, 88, 96, 104  # in struct gilk_access
WHOLE, _AHEAD, BEHIND, _TRIED, _DECIDED = range(5)  # enum gilk_access_phase
_SITE: Final = struct.Struct("<4I")
_POP_FLAGS: Final = b"\x8f\x44\x24" + bytes((_FLAGS,))  # pop qword ptr [rsp + 80]
_PUSH_FLAGS: Final = b"\xff\x74\x24" + bytes((_FLAGS,))
_POP_KEPT: Final = b"\x8f\x44\x24" + bytes((KEPT,))
_PUSH_KEPT: Final = b"\xff\x74\x24" + bytes((KEPT,))
_R11_AT_R11: Final = {1: b"\x45\x8a\x1b", 2: b"\x66\x45\x8b\x1b", 4: b"\x45\x8b\x1b", 8: b"\x4d\x8b\x1b"}
_R11_AT_RSP: Final = {
    1: b"\x44\x8a\x1c\x24", 2: b"\x66\x44\x8b\x1c\x24", 4: b"\x44\x8b\x1c\x24", 8: b"\x4c\x8b\x1c\x24",
}  # fmt: skip
_AT_RSP_R11: Final = {
    1: b"\x44\x88\x1c\x24", 2: b"\x66\x44\x89\x1c\x24", 4: b"\x44\x89\x1c\x24", 8: b"\x4c\x89\x1c\x24",
}  # fmt: skip
_AT_RAX_R11: Final = {1: b"\x44\x88\x18", 2: b"\x66\x44\x89\x18", 4: b"\x44\x89\x18", 8: b"\x4c\x89\x18"}


_LOAD_RAX: Final = b"\x48\xa1"  # mov rax, [imm64]
_NOT_RAX: Final = b"\x48\xf7\xd0"
_CMP_R11_RAX: Final = b"\x49\x39\xc3"
_JAE32: Final = b"\x0f\x83"


class Means(Enum):
    """How a patch gives an advised instruction its memory operand."""

    EXCHANGED = auto()  # its memory operand is replaced by a place on the stack
    READ_ONCE = auto()  # the instruction runs unchanged, after an observer
    OBSERVED = auto()  # the instruction runs unchanged, between two observers
    STRING = auto()  # observed, too: it writes upwards from rdi, one unit or, with a repeat prefix, rcx units


@dataclass(frozen=True, slots=True)
class AccessAdvice:
    """A C function in the arena at ``entry``; ``vectors`` says whether it may change vector registers."""

    entry: int
    vectors: bool


@dataclass(frozen=True, slots=True)
class AccessingInstruction:
    """An instruction that accesses memory. ``raw`` holds its bytes at its link-time address, to which the loader has
    added ``bias``; ``size`` is that of its memory operand, in bytes.
    """

    instruction: Instruction
    raw: bytes
    bias: int
    means: Means
    reads: bool
    writes: bool
    size: int

    @property
    def address(self) -> int:
        """The address of the instruction in the running process."""
        return int(self.instruction.ip) + self.bias


@dataclass(frozen=True, slots=True)
class Accessed:
    """The instrument for advice on one instruction: on the value that it reads, on the value that it writes, or on both
    (at least one of ``read`` and ``write`` is not None). ``replaces``: some of the advice stands in place of the
    access.

    ``number`` is that of the instruction's function among the functions that the C code knows. ``thunk`` is the address
    of the runtime's way into C. ``bounds`` is the address in the target of the bounds of all watched memory (struct
    gilk_woven, from its field ``below`` on), or 0 if advice is asked about every access of the instruction.
    """

    of: AccessingInstruction
    read: AccessAdvice | None
    write: AccessAdvice | None
    replaces: bool
    number: int
    thunk: int
    bounds: int = 0

    @property
    def reads(self) -> int:
        return EVERYTHING

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        """Append the code of the instrument; unless it only observes a read (is_around), that includes the instruction
        itself.
        """
        _Emission(self, builder, context).emit()


def call_advice(
    builder: CodeBuilder, context: Context, thunk: int, advice: AccessAdvice, number: int, failed: int,
    size: int = 0, phase: int = WHOLE, skipped: int = 0, pc: int = 0,
) -> None:  # fmt: skip
    """Append a call of advice by way of the thunk, and the constants of its site. Behind the call registers and flags
    are unchanged, r11 too: struct gilk_access keeps it. If there is no advice to run, the patch goes on at ``failed``.
    ``pc``: the address that the site has as its own, by default the patch's point.
    """
    site, turned = builder.label(), bool(context.live & DIRECTION)
    builder.emit(asm.PUSHF + _POP_FLAGS + asm.CLD if turned else b"")
    builder.local(asm.LEA_R11_RIP, site)
    builder.external(asm.CALL32, thunk)
    builder.emit(_PUSH_FLAGS + asm.POPF if turned else b"")
    out = builder.label() if turned else failed

    def lay() -> None:
        if out != failed:
            builder.place(out)
            builder.emit(_PUSH_FLAGS + asm.POPF)
            builder.local(asm.JMP32, failed)
        builder.place(site)
        builder.local(b"", out)
        builder.external(b"", advice.entry)
        builder.emit(_SITE.pack(advice.vectors, number, size, phase))
        builder.external(b"", pc or context.address)
        builder.local(b"", skipped or out)

    builder.cold(lay)


def last(instruments: list[Instrument]) -> list[Instrument]:
    """The instruments with those on accesses moved behind all others, because an access instrument contains the
    instruction.
    """
    return sorted(instruments, key=lambda each: isinstance(each, Accessed))


def is_around(instrument: Instrument | None) -> bool:
    """Whether the instrument itself runs the instruction at its point, so that the patch must not run it again."""
    return isinstance(instrument, Accessed) and instrument.of.means is not Means.READ_ONCE


class _Emission:
    def __init__(self, accessed: Accessed, builder: CodeBuilder, context: Context) -> None:
        self._of, self._read, self._write = accessed.of, accessed.read, accessed.write
        self._accessed, self._builder, self._context = accessed, builder, context
        self._end, self._plain = builder.label(), builder.label()

    def emit(self) -> None:
        """Append the code of the instrument. If there is no advice to run, the instruction runs as in the program."""
        builder = self._builder
        builder.emit(asm.lea_stack(asm.RSP, -FRAME) + asm.store_stack(asm.R11, R11))
        self._load_address()
        builder.emit(asm.store_stack(asm.R11, _ADDRESS))
        if self._accessed.bounds and self._of.means is not Means.STRING:
            self._compare(self._accessed.bounds)
        if self._of.means is Means.STRING:
            self._observe_string()
        elif self._of.means is Means.EXCHANGED and self._of.reads and self._of.writes and not self._accessed.replaces:
            self._try()
        elif self._of.means is Means.EXCHANGED:
            self._exchange()
        elif self._of.means is Means.OBSERVED:
            self._observe()
        else:
            self._observe_once()
        builder.emit(asm.lea_stack(asm.RSP, FRAME))
        builder.place(self._end)

    def _load_address(self) -> None:
        """Load the address of the memory operand into r11, even if r11 is a register of that operand."""
        instruction = self._of.instruction
        if self._of.means is Means.STRING:
            self._load_string()
            return
        if instruction.is_ip_rel_memory_operand:
            self._builder.external(asm.LEA_R11_RIP, int(instruction.ip_rel_memory_address) + self._of.bias)
            return
        memory = MemoryOperand(
            instruction.memory_base, instruction.memory_index, instruction.memory_index_scale,
            signed(instruction.memory_displacement), 8 if instruction.memory_displ_size else 0,
        )  # fmt: skip
        self._builder.emit(encoded(Instruction.create_reg_mem(Code.LEA_R64_M, Register.R11, memory)))

    def _compare(self, bounds: int) -> None:
        """Append a comparison of the address in r11 with the bounds; outside of them the instruction runs as in the
        program. The address stays in r11.
        """
        builder, far, flags = self._builder, self._builder.label(), bool(self._context.live & FLAGS)
        builder.emit(asm.store_stack(asm.RAX, KEPT))
        builder.emit(asm.LAHF + asm.SETO_AL + asm.store_stack(asm.RAX, _KEPT_FLAGS) if flags else b"")
        builder.emit(_LOAD_RAX + bounds.to_bytes(8, "little") + _NOT_RAX + _CMP_R11_RAX)
        builder.local(asm.JC32, far)
        builder.emit(_LOAD_RAX + (bounds + 8).to_bytes(8, "little") + _CMP_R11_RAX)
        builder.local(_JAE32, far)
        self._uncompare(flags)

        def lay() -> None:
            builder.place(far)
            self._uncompare(flags)
            builder.emit(asm.load_stack(asm.R11, R11) + asm.lea_stack(asm.RSP, FRAME))
            if self._of.means is not Means.READ_ONCE:
                builder.mark(self._context.address, False)
                relocate(builder, self._of.instruction, self._of.raw, self._of.bias)
            builder.local(asm.JMP32, self._end)

        builder.cold(lay)

    def _uncompare(self, flags: bool) -> None:
        """Restore the registers and flags that the comparison has changed."""
        if flags:
            self._builder.emit(asm.load_stack(asm.RAX, _KEPT_FLAGS) + asm.ADD_AL_127 + asm.SAHF)
        self._builder.emit(asm.load_stack(asm.RAX, KEPT))

    def _load_string(self) -> None:
        """Load the address that a string instruction writes to into r11, and store the size of its write for the C
        code.
        """
        unit = self._of.size
        if is_repeated(self._of.instruction):
            scaled = MemoryOperand(Register.NONE, Register.RCX, unit, 0, 8)
            self._builder.emit(encoded(Instruction.create_reg_mem(Code.LEA_R64_M, Register.R11, scaled)))
        else:
            self._builder.emit(asm.move_immediate(asm.R11, unit))
        self._builder.emit(asm.store_stack(asm.R11, _SIZE) + asm.move(asm.R11, asm.RDI))

    def _observe_string(self) -> None:
        """Observe a string instruction, as _observe() does others. If advice decides that it is not to run, the
        registers are set as if it had run.
        """
        assert self._write is not None
        builder, behind, skipped = self._builder, self._builder.label(), self._builder.label()
        builder.cold(self._lay_plain)
        self._call(self._write, _DECIDED if self._accessed.replaces else _AHEAD, self._plain, skipped)
        relocate(builder, self._of.instruction, self._of.raw, self._of.bias)
        builder.emit(asm.store_stack(asm.R11, R11))
        self._call(self._write, BEHIND, behind)
        builder.place(behind)

        def lay() -> None:
            builder.place(skipped)
            builder.emit(stepped(self._of.instruction, self._of.size))
            builder.local(asm.JMP32, behind)

        builder.cold(lay)

    def _exchange(self) -> None:
        builder, drained = self._builder, self._builder.label()
        if self._read is not None:
            self._call(self._read, WHOLE, self._plain)
            builder.cold(self._lay_plain)
        elif self._of.reads:
            self._fill()
        else:
            builder.emit(asm.load_stack(asm.R11, R11))
        builder.emit(exchanged(self._of.instruction))
        if self._write is not None:
            builder.emit(asm.store_stack(asm.R11, R11))
            self._call(self._write, WHOLE, drained)
            builder.cold(lambda: self._lay_drain(drained))
        elif self._of.writes:
            self._drain()

    def _observe(self) -> None:
        """Call the observers around the unchanged instruction. The observer of a write is called before, to see the old
        value, and again behind the instruction.
        """
        builder, behind = self._builder, self._builder.label()
        builder.cold(self._lay_plain)
        if self._read is not None:
            self._call(self._read, WHOLE, self._plain)
        if self._write is not None:
            self._call(self._write, _AHEAD, self._plain)
        relocate(builder, self._of.instruction, self._of.raw, self._of.bias)
        if self._write is not None:
            builder.emit(asm.store_stack(asm.R11, R11))
            self._call(self._write, BEHIND, behind)
        builder.place(behind)

    def _try(self) -> None:
        """Run the instruction on a copy of its operand on the stack, to show advice the value that it will write, and
        then on memory. Flags that it reads are the same both times.
        """
        builder, behind, reads_flags = self._builder, self._builder.label(), self._of.instruction.rflags_read != 0
        builder.cold(self._lay_plain)
        if self._read is not None:
            self._call(self._read, WHOLE, self._plain)
        if self._write is not None:
            builder.emit(asm.load_stack(asm.R11, _ADDRESS))
            self._fill()
            builder.emit(asm.PUSHF + _POP_KEPT if reads_flags else b"")
            builder.emit(exchanged(self._of.instruction))
            builder.emit(_PUSH_KEPT + asm.POPF if reads_flags else b"")
            self._call(self._write, _TRIED, self._plain)
        relocate(builder, self._of.instruction, self._of.raw, self._of.bias)
        if self._write is not None:
            self._call(self._write, BEHIND, behind)
        builder.place(behind)

    def _observe_once(self) -> None:
        assert self._read is not None
        behind = self._builder.label()
        self._call(self._read, WHOLE, behind)
        self._builder.place(behind)

    def _call(self, advice: AccessAdvice, phase: int, failed: int, skipped: int = 0) -> None:
        size = 0 if self._of.means is Means.STRING else self._of.size
        thunk, number = self._accessed.thunk, self._accessed.number
        call_advice(self._builder, self._context, thunk, advice, number, failed, size, phase, skipped)

    def _lay_plain(self) -> None:
        """Lay the path on which the instruction runs as in the program."""
        builder = self._builder
        builder.place(self._plain)
        builder.emit(asm.lea_stack(asm.RSP, FRAME))
        builder.mark(self._context.address, False)
        relocate(builder, self._of.instruction, self._of.raw, self._of.bias)
        builder.local(asm.JMP32, self._end)

    def _lay_drain(self, label: int) -> None:
        """Lay the path on which the written value is stored to memory without advice."""
        self._builder.place(label)
        if self._of.size in _AT_RAX_R11:
            self._drain()
        else:
            self._builder.emit(asm.lea_stack(asm.RSP, FRAME))
            relocate(self._builder, self._of.instruction, self._of.raw, self._of.bias)  # a store, made once more
            self._builder.local(asm.JMP32, self._end)
            return
        self._builder.emit(asm.lea_stack(asm.RSP, FRAME))
        self._builder.local(asm.JMP32, self._end)

    def _fill(self) -> None:
        """Copy the value to be read onto the stack. Its address is in r11, whose own value is restored."""
        size = self._of.size
        self._builder.emit(_R11_AT_R11[size] + _AT_RSP_R11[size] + asm.load_stack(asm.R11, R11))

    def _drain(self) -> None:
        """Store the written value from the stack to the memory operand."""
        size = self._of.size
        self._builder.emit(asm.store_stack(asm.R11, R11) + asm.store_stack(asm.RAX, KEPT))
        self._builder.emit(asm.load_stack(asm.RAX, _ADDRESS) + _R11_AT_RSP[size] + _AT_RAX_R11[size])
        self._builder.emit(asm.load_stack(asm.RAX, KEPT) + asm.load_stack(asm.R11, R11))
