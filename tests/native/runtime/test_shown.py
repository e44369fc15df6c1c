# SPDX-License-Identifier: LGPL-2.1-or-later
"""A tracer may stop a thread at any instruction of the runtime's work on a handler's context. Whatever it finds there
is a state of the thread that leads on rightly, or is known to be half done. The oracle is an emulator, which goes on
from each state to the end of the patch."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gilk.arch import asm
from gilk.splice.code import CodeBuilder
from gilk.splice.frame import FLAGS, Frame, enter, frame_for, leave
from gilk.targets.frames import FRAME_SIZE, ORDER, ContextRegisters, frame_at, registers_of
from gilk.toolchain.compilers import NATIVE, flags
from gilk.values import dataclass
from tests.native.host import HOSTS, build

u: Any = import_module("unicorn")
x: Any = import_module("unicorn.x86_const")

CODE, STACK, GS, ORIGINAL = 0x10000, 0x200000, 0x300000, 0x400000
TOP, WORDS, CONTEXT = STACK + 0x800, 40, 304
ARITHMETIC, GIVEN_FLAGS = 0x8D5, 0x8D5 & ~0x40 | 2
_NAMES = ("RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI", *(f"R{number}" for number in range(8, 16)))
_IDS = [getattr(x, f"UC_X86_REG_{name}") for name in _NAMES]
GENERAL = tuple(TOP if number == asm.RSP else 0x0123456789AB0000 + 0x101 * number for number in range(16))


def frame() -> Frame:
    return frame_for((1 << 16) - 1 | FLAGS, 1 << asm.RCX | 1 << asm.RDX | FLAGS)


@cache
def patch() -> bytes:
    """An instrument that counts, as a patch has it where all registers and the flags are needed."""
    builder = CodeBuilder()
    enter(builder, frame())
    builder.emit(asm.move_immediate(asm.RCX, 5) + asm.add(asm.RCX, asm.RCX) + asm.inc_gs(0x100))
    builder.emit(asm.push(asm.RCX) + asm.push_immediate(7) + asm.lea_stack(asm.RSP, 16))
    builder.emit(asm.move(asm.RDX, asm.RCX) + asm.cmp_gs_zero(0x200))
    leave(builder, frame())
    return builder.finish().data


@dataclass(frozen=True, slots=True)
class State:
    """A thread amid the patch: ``at``, an offset in it, its registers by number, and the stack from there on."""

    at: int
    general: tuple[int, ...]
    flags: int
    stack: tuple[int, ...]


class Machine:
    """The emulated thread."""

    def __init__(self) -> None:
        self._engine = u.Uc(u.UC_ARCH_X86, u.UC_MODE_64)
        for at in (CODE, STACK, GS):
            self._engine.mem_map(at, 0x1000)
        self._engine.mem_write(CODE, patch() + b"\x90" * 16)
        self._engine.reg_write(x.UC_X86_REG_GS_BASE, GS)

    def take(self, state: State) -> None:
        for register, value in zip(_IDS, state.general, strict=True):
            self._engine.reg_write(register, value)
        self._engine.reg_write(x.UC_X86_REG_EFLAGS, state.flags)
        for number, word in enumerate(state.stack):
            self._engine.mem_write(state.general[asm.RSP] + 8 * number, word.to_bytes(8, "little"))

    def states(self, first: State) -> Iterator[State]:
        """The state at each instruction from this one to the end of the patch."""
        self.take(first)
        at = first.at
        while at < len(patch()):
            yield self._state(at)
            self._engine.emu_start(CODE + at, CODE + 0x1000, count=1)
            at = self._engine.reg_read(x.UC_X86_REG_RIP) - CODE
        yield self._state(at)

    def _state(self, at: int) -> State:
        general = tuple(self._engine.reg_read(register) for register in _IDS)
        content = self._engine.mem_read(general[asm.RSP], 8 * WORDS)
        words = tuple(int.from_bytes(content[8 * n : 8 * n + 8], "little") for n in range(WORDS))
        return State(at, general, self._engine.reg_read(x.UC_X86_REG_EFLAGS), words)


def right_at_the_end(state: State) -> bool:
    *_, last = Machine().states(state)
    return last.general == GENERAL and last.flags & ARITHMETIC == GIVEN_FLAGS & ARITHMETIC


class Memory:
    """The memory that a tracer reads: the frame and the stack, both as they were at one moment."""

    def __init__(self, pieces: dict[int, bytes]) -> None:
        self._pieces = pieces

    def some(self, address: int, size: int) -> bytes:
        for at, content in self._pieces.items():
            if at <= address and address + size <= at + len(content):
                return content[address - at : address - at + size]
        return b""


@dataclass(frozen=True, slots=True)
class Seen:
    """The thread at one moment. ``found``: the state in which the context goes on, None if that is half done;
    ``shown``: what the handler sees, if that is the whole original state."""

    doing: str
    found: State | None
    shown: ContextRegisters | None


@cache
def program() -> Path:
    sources = [Path(__file__).with_name("shown.c"), *sorted((NATIVE / "runtime").glob("*.c"))]
    alias = "-Wl,--defsym=gilk_control=gilk_params"
    return Path(build(sources, "shown", *flags(), "-mgeneral-regs-only", alias, *HOSTS["test"]))


def seen(state: State) -> list[Seen]:
    """Everything that a tracer may see of a thread that is interrupted in this state, in order."""
    registers = (*(state.general[number] for number in ORDER), state.flags)
    words, end = (" ".join(f"{word:x}" for word in each) for each in (state.stack, registers)), str(len(patch()))
    done = subprocess.run(
        [program(), patch().hex(), end, str(state.at), *words], capture_output=True, text=True, timeout=600, check=True
    )
    first, *lines = done.stdout.splitlines()
    code, stack, context = (int(word, 16) for word in first.split()[1:])
    lower = state.general[asm.RSP] - stack
    return [_seen(line.split()[0], bytes.fromhex(line.split()[1]), code, stack, context, lower) for line in lines]


def _seen(doing: str, content: bytes, code: int, stack: int, context: int, lower: int) -> Seen:
    """``lower``: how far the emulated stack lies above the one that was seen."""
    whole = bytes(8) + content[:CONTEXT]
    memory: Any = Memory({context - 8: whole, stack: content[CONTEXT:]})
    noted = frame_at(whole[:FRAME_SIZE], context - 8, 0)
    found = registers_of(noted, memory)
    if found is None:
        return Seen(doing, None, None)
    plain = frame_at(whole[:240] + bytes(8) + whole[248:FRAME_SIZE], context - 8, 0)
    words = bytearray(content[CONTEXT:])
    for at, word in found.stored:
        words[at - stack : at - stack + 8] = word.to_bytes(8, "little")
    general = tuple(value + lower if number == asm.RSP else value for number, value in enumerate(found.general))
    from_rsp = range(found.general[asm.RSP] - stack, len(words), 8)
    there = tuple(int.from_bytes(words[at : at + 8], "little") for at in from_rsp)
    shown = registers_of(plain, memory) if noted.is_whole else None
    at = found.rip - code
    return Seen(doing, State(at, general, found.flags, there[: (TOP + 0x100 - general[asm.RSP]) // 8]), shown)


@cache
def interrupted() -> list[State]:
    """The thread at each instruction of the patch but the first and the one behind the last."""
    return list(Machine().states(State(0, GENERAL, GIVEN_FLAGS, ())))[1:-1]


@pytest.mark.parametrize("number", range(len(interrupted())))
def test_a_context_leads_on_rightly_at_each_instruction_of_the_runtime(number: int) -> None:
    state = interrupted()[number]
    moments = seen(state)
    assert all(right_at_the_end(moment.found) for moment in set(moments) if moment.found is not None)
    shown = {moment.shown for moment in moments if moment.shown is not None}
    for one in shown:
        assert one.rip == ORIGINAL and one.flags & ARITHMETIC == GIVEN_FLAGS & ARITHMETIC
        assert one.general[: asm.RSP] == GENERAL[: asm.RSP] and one.general[asm.RBP :] == GENERAL[asm.RBP :]
    end = len(patch()) - size_of_end()
    assert bool(shown) is (state.at < end), "amid the patch the handler sees the whole state, at its end it is restored"
    assert moments[-1].doing == "leave" and moments[-1].found is not None


def size_of_end() -> int:
    """The bytes of the end of the patch that only restore."""
    builder = CodeBuilder()
    leave(builder, frame())
    return len(builder.finish().data)
