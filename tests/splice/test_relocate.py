# SPDX-License-Identifier: LGPL-2.1-or-later
"""Instructions moved elsewhere: their new form, and that they do the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import capstone
import pytest
from iced_x86 import Code as Opcode
from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, Register

from gilk.arch.asm import JMP32
from gilk.splice.code import CodeBuilder
from gilk.splice.relocate import CannotRelocate, relocate
from tests.oracle.relocate import GPRS, STACK, differences, run

CORPUS = Path(__file__).parent.parent / "corpus" / "relocate.txt"
AT, BIAS, ELSEWHERE = 0x1000, 0x400000, 0x10000000
HOME = AT + BIAS


def relocated(raw: bytes, then_on: bool = False) -> bytes:
    """``raw``, linked at AT and loaded at HOME, relocated to ELSEWHERE; with ``then_on``, a jump follows it."""
    instruction = Decoder(64, raw, ip=AT).decode()
    builder = CodeBuilder()
    relocate(builder, instruction, raw, BIAS)
    if then_on:
        builder.external(JMP32, instruction.next_ip + BIAS)
    return builder.finish().placed(ELSEWHERE, {})


def listing(code: bytes) -> str:
    """Disassembled, with what a reader can check at a glance: absolute targets."""
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = True
    lines, size = [], 0
    for found in decoder.disasm(code, ELSEWHERE):
        line = f"{found.mnemonic} {found.op_str}".strip()
        if "rip" in line and found.disp:
            place = f"{found.address + found.size + found.disp:#x}"
            line = line.replace(line[line.index("rip") : line.index("]")], place)
        lines.append(line)
        size += found.size
    assert size == len(code)
    return "; ".join(lines)


def cases() -> Iterator[tuple[str, str]]:
    for line in CORPUS.read_text().splitlines():
        if line and not line.startswith("#"):
            raw, _, expected = line.partition(" ")
            yield raw, expected.strip()


@pytest.mark.parametrize(("raw", "expected"), list(cases()))
def test_relocated_instructions_have_the_expected_form(raw: str, expected: str) -> None:
    if expected.startswith("! "):
        with pytest.raises(CannotRelocate, match=expected[2:]):
            relocated(bytes.fromhex(raw))
    else:
        assert listing(relocated(bytes.fromhex(raw))) == expected


# The same effect: every case is executed in place and elsewhere, from the same random state.

# Clocks, the trap flag, and what stores the address of the last x87 instruction.
_NAMES = """RDTSC RDTSCP RDPMC CPUID RDRAND RDSEED INVALID POPF POPFQ IRET IRETD IRETQ FNSTENV FNSAVE FXSAVE
FXSAVE64 XSAVE XSAVE64 XSAVEC"""
_OWN_WAYS = frozenset(getattr(Mnemonic, name) for name in _NAMES.split())


def random_state(rng: random.Random) -> dict[str, int]:
    """Values of all sorts: pointers, small numbers, negative ones."""
    mask = (1 << 64) - 1
    pointer = lambda: 0x500000 + rng.randrange(1 << 16)  # noqa: E731
    kinds = (lambda: rng.getrandbits(64), lambda: rng.randrange(4), pointer, lambda: mask)
    registers = {name: rng.choice(kinds)() for name in GPRS}
    return registers | {"rsp": STACK - 8 * rng.randrange(64)}


def same_effect(raw: bytes, rng: random.Random) -> list[str]:
    """The differences between ``raw`` at HOME and moved; none if all is well."""
    registers, flags = random_state(rng), 0x202 | rng.getrandbits(12) & 0x8D5
    xmm = {n: rng.getrandbits(128) for n in range(16)}
    moved = relocated(raw, then_on=True)
    there = run(moved, ELSEWHERE, registers, {HOME: raw}, xmm=xmm, flags=flags)
    here = run(raw, HOME, registers, xmm=xmm, flags=flags)
    if raw_is_call(raw) and (here.fault or reads_what_it_pushes(raw, registers)):
        return []  # elsewhere, a call has pushed already when it reads its operand, or faults
    return differences(here, there, ignore=("rip",) if here.fault else ())


def raw_is_call(raw: bytes) -> bool:
    return Decoder(64, raw, ip=AT).decode().flow_control == FlowControl.INDIRECT_CALL


def reads_what_it_pushes(raw: bytes, registers: dict[str, int]) -> bool:
    instruction = Decoder(64, raw, ip=HOME).decode()
    base, index = (registers.get(_REGISTERS.get(r, ""), 0) for r in (instruction.memory_base, instruction.memory_index))
    operand = (base + index * instruction.memory_index_scale + instruction.memory_displacement) % (1 << 64)
    return registers["rsp"] - 16 < operand < registers["rsp"]


_REGISTERS = {getattr(Register, name.upper()): name for name in GPRS}


def is_tested(instruction: Instruction) -> bool:
    """Whether the test applies: not to code that reads clocks, enters the system, where the address may show, or
    jumps to itself."""
    flow = instruction.flow_control
    unlike = (FlowControl.INTERRUPT, FlowControl.EXCEPTION, FlowControl.XBEGIN_XABORT_XEND)
    to_itself = instruction.ip <= instruction.near_branch_target < instruction.next_ip
    own_way = instruction.mnemonic in _OWN_WAYS or instruction.is_privileged
    return not own_way and flow not in unlike and not to_itself


def random_instructions(rng: random.Random) -> Iterator[bytes]:
    """Any bytes that decode; forms that relocation changes are drawn more often than by chance."""
    texts = ("", "8b", "ff", "488d", "0f80", "70", "e2", "66", "f30f", "48", "e8", "c6")
    heads = [bytes.fromhex(text) for text in texts]
    while True:
        head = rng.choice(heads)
        if head in (b"\x70", b"\x0f\x80"):
            head = head[:-1] + bytes((head[-1] | rng.randrange(16),))
        data = head + rng.randbytes(15)
        if len(head) and rng.randrange(3) == 0:  # mod 00, rm 101: relative to rip
            at = len(head)
            data = data[:at] + bytes((data[at] & 0x38 | 5,)) + data[at + 1 :]
        instruction = Decoder(64, data, ip=AT).decode()
        if instruction.code != Opcode.INVALID and is_tested(instruction):
            yield data[: instruction.len]


def has_16_bit_target(raw: bytes) -> bool:
    """A branch behind 66h: one maker's processors ignore the prefix, the other's, and the emulator, do not."""
    return b"\x66" in raw[:-2] and Decoder(64, raw, ip=AT).decode().flow_control != FlowControl.NEXT


def check_random(seed: int, count: int) -> None:
    rng = random.Random(seed)
    source = random_instructions(rng)
    moved = 0
    while moved < count:
        raw = next(source)
        if has_16_bit_target(raw):
            continue
        try:
            assert same_effect(raw, rng) == [], raw.hex()
        except (CannotRelocate, OverflowError):
            continue
        moved += 1


@pytest.mark.parametrize("raw", [raw for raw, expected in cases() if not expected.startswith("!")])
def test_relocated_instructions_of_the_corpus_have_the_same_effect(raw: str) -> None:
    code = bytes.fromhex(raw)
    if is_tested(Decoder(64, code, ip=AT).decode()):
        for seed in range(8):
            assert same_effect(code, random.Random(seed)) == []


def test_relocated_random_instructions_have_the_same_effect() -> None:
    check_random(seed=1, count=3000)


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_relocated_random_instructions_have_the_same_effect(seed: int) -> None:
    check_random(seed, count=5000)
