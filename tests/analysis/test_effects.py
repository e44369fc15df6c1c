# SPDX-License-Identifier: LGPL-2.1-or-later
"""Effects of single instructions, compared with Capstone and with an emulator."""

from __future__ import annotations

import random
from collections.abc import Iterator

import capstone
import pytest
from iced_x86 import EncodingKind, Instruction

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import FLAGS_LIVE
from gilk.arch import decode as x86
from gilk.arch.effects import FINE_EVERYTHING, effects, fine_effects, writes
from tests.oracle.relocate import GPRS, run

SAMPLE = 1500
_STATUS = 0x8D5
_FLOW = (x86.CALL, x86.CALL_INDIRECT, x86.RETURN, x86.JUMP_INDIRECT, x86.INTERRUPT, x86.EXCEPTION)


def distinct(analysis: Analysis) -> list[tuple[Instruction, bytes]]:
    """Real instructions, one of each pattern of operands, with their bytes."""
    found: dict[tuple[int, ...], tuple[Instruction, bytes]] = {}
    for f in analysis.functions():
        for i in x86.decode(f.code, f.start):
            key = (i.code, i.op0_register, i.op1_register, i.memory_base, i.memory_index, i.has_rep_prefix)
            if i.code != x86.INVALID:
                found.setdefault(key, (i, f.code[i.ip - f.start : i.ip - f.start + i.len]))
    return list(found.values())


def masks(engine: capstone.Cs, code: bytes, address: int) -> tuple[int, int] | None:
    """The registers that Capstone says are (read, written); None if it decodes the code otherwise."""
    decoded = next(iter(engine.disasm(code, address, 1)), None)
    if decoded is None or decoded.size != len(code):
        return None
    read, written = decoded.regs_access()
    return _mask(engine, read), _mask(engine, written)


def _mask(engine: capstone.Cs, registers: list[int]) -> int:
    numbers = {name: n for n, names in enumerate(_names()) for name in names}
    return sum({1 << numbers[name] for r in registers if (name := engine.reg_name(r)) in numbers})


def _names() -> Iterator[set[str]]:
    for n, name in enumerate(GPRS):
        stem = name[1:]
        if n >= 8:
            yield {name, f"{name}d", f"{name}w", f"{name}b"}
        elif n in (4, 5, 6, 7):
            yield {name, f"e{stem}", stem, f"{stem}l"}
        else:
            yield {name, f"e{stem}", stem, f"{stem[0]}l", f"{stem[0]}h"}


def test_writes_agree_with_capstone(libc: Analysis) -> None:
    """The analysis may leave out no register that Capstone says is written and that the instruction names."""
    engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    engine.detail = True
    wrong = []
    for i, code in random.Random(1).sample(distinct(libc), SAMPLE):
        theirs = masks(engine, code, i.ip)
        if theirs is None or i.flow_control in _FLOW or x86.is_nop(i):
            continue
        if theirs[1] & ~writes(i):
            wrong.append(f"{i}: {theirs[1]:#x}, ours {writes(i):#x}")
    assert wrong == []


def outcome(i: Instruction, code: bytes, registers: dict[str, int], flags: int) -> tuple[list[int], int] | None:
    state = run(code, 0x400000, registers, flags=flags, limit=1)
    if state.fault not in (None, "limit"):
        return None
    return [state.gpr[name] for name in GPRS], state.flags & _STATUS


def test_killed_registers_do_not_depend_on_what_they_held(libc: Analysis) -> None:
    """In an emulator, garbage in registers that are killed and not read leaves no trace."""
    source = random.Random(2)
    tried = 0
    for i, code in _emulated(source.sample(distinct(libc), SAMPLE)):
        reads, kills = effects(i)
        unread = kills & ~reads
        registers = {name: source.getrandbits(64) for name in GPRS if name != "rsp"}
        flags = 0x202 | source.getrandbits(12) & _STATUS
        other = {n: ~v & (1 << 64) - 1 if unread >> GPRS.index(n) & 1 else v for n, v in registers.items()}
        first = outcome(i, code, registers, flags)
        second = outcome(i, code, other, flags ^ _STATUS if unread & FLAGS_LIVE else flags)
        if first is None or second is None:
            continue
        tried += 1
        assert first[0] == second[0], f"{i}: reads {reads:#x}, kills {kills:#x}"
    assert tried > 500


def test_registers_that_are_not_written_keep_their_value(libc: Analysis) -> None:
    source = random.Random(3)
    for i, code in _emulated(source.sample(distinct(libc), SAMPLE)):
        registers = {name: source.getrandbits(64) for name in GPRS if name != "rsp"}
        after = outcome(i, code, registers, 0x202)
        if after is None:
            continue
        for number, name in enumerate(GPRS):
            if name != "rsp" and not writes(i) >> number & 1:
                assert after[0][number] == registers[name], f"{i} changes {name}"


def _emulated(sample: list[tuple[Instruction, bytes]]) -> Iterator[tuple[Instruction, bytes]]:
    for i, code in sample:
        if int(i.encoding) == EncodingKind.LEGACY and not i.flow_control and not i.is_ip_rel_memory_operand:
            yield i, code


RAX, RCX, RDX, RBX, RSP, RBP = (1 << n for n in range(6))
R11 = 1 << 11


@pytest.mark.parametrize(
    ("code", "reads", "kills"),
    [
        ("31c0", 0, RAX | FLAGS_LIVE),  # xor eax, eax
        ("4829c0", 0, RAX | FLAGS_LIVE),  # sub rax, rax
        ("19c0", FLAGS_LIVE, RAX | FLAGS_LIVE),  # sbb eax, eax
        ("30c0", 0, FLAGS_LIVE),  # xor al, al: the rest of rax stays
        ("88c8", RCX, 0),  # mov al, cl
        ("89c8", RCX, RAX),  # mov eax, ecx
        ("480f44c1", RCX | FLAGS_LIVE, 0),  # cmove rax, rcx
        ("0f44c1", RAX | RCX | FLAGS_LIVE, RAX),  # cmove eax, ecx: the upper half goes in any case
        ("48ffc8", RAX, RAX),  # dec rax: leaves the carry
        ("d3e0", RAX | RCX, RAX),  # shl eax, cl: by 0, perhaps
        ("c1e003", RAX, RAX | FLAGS_LIVE),  # shl eax, 3
        ("c1e000", RAX, RAX),  # shl eax, 0
        ("48f7f1", RAX | RCX | RDX, RAX | RDX),  # div rcx
        ("0fa2", RAX | RCX, RAX | RBX | RCX | RDX),  # cpuid
        ("50", RAX | RSP, RSP),  # push rax
        ("c9", RBP, RSP | RBP),  # leave
        ("0f1f440000", 0, 0),  # nop [rax+rax]
        ("f30f1efa", 0, 0),  # endbr64
        ("9c", RSP | FLAGS_LIVE, RSP),  # pushf
        ("9d", RSP, RSP | FLAGS_LIVE),  # popf
        ("9e", RAX, 0),  # sahf: not the overflow flag
        ("0f05", 0x1FFFF & ~(RCX | R11), RCX | R11),  # syscall
    ],
)
def test_a_corpus_of_effects(code: str, reads: int, kills: int) -> None:
    instruction = x86.decode_one(bytes.fromhex(code), 0x1000)
    assert effects(instruction) == (reads, kills), str(instruction)


def test_bytes_that_do_not_decode_read_everything() -> None:
    assert fine_effects(x86.decode_one(b"\x06", 0)) == (FINE_EVERYTHING, 0)
