# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every encoder, with every register that it takes, is read back by an independent disassembler."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import capstone
import pytest

from gilk.arch import asm

WIDE = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{n}" for n in range(8, 16)))
NARROW = ("eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", *(f"r{n}d" for n in range(8, 16)))
BASES = [n for n in range(16) if n not in (asm.RSP, asm.R12)]  # these two need another byte
AT = 0x1000


def text(code: bytes) -> str:
    """The text of ``code``, which must be exactly one instruction."""
    (found,) = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64).disasm(code, AT)
    assert found.size == len(code)
    return f"{found.mnemonic} {found.op_str}".strip()


def signed(offset: int) -> str:
    """The text of an offset after a base, as the disassembler writes it: nothing for zero, decimal below ten."""
    if not offset:
        return ""
    digits = hex(abs(offset)) if abs(offset) > 9 else str(abs(offset))
    return f" {'-' if offset < 0 else '+'} {digits}"


@pytest.mark.parametrize("reg", range(16))
@pytest.mark.parametrize("offset", [0x10, 0x7FFF_FFF8])
def test_encode_accesses_of_fields_of_the_thread_block(reg: int, offset: int) -> None:
    assert text(asm.load_gs(reg, offset)) == f"mov {WIDE[reg]}, qword ptr gs:[{offset:#x}]"
    assert text(asm.cmp_gs_zero(offset)) == f"cmp qword ptr gs:[{offset:#x}], 0"
    assert text(asm.cmp_gs(reg, offset)) == f"cmp {WIDE[reg]}, qword ptr gs:[{offset:#x}]"
    assert text(asm.cmpxchg_gs(reg, offset)) == f"cmpxchg qword ptr gs:[{offset:#x}], {WIDE[reg]}"
    assert text(asm.inc_gs(offset)) == f"inc qword ptr gs:[{offset:#x}]"


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("reg", range(16))
def test_encode_accesses_of_fields_of_a_record(reg: int, base: int) -> None:
    for offset in (0, 0x1234, -8):
        place = f"gs:[{WIDE[base]}{signed(offset)}]"
        assert text(asm.store_gs(reg, base, offset)) == f"mov qword ptr {place}, {WIDE[reg]}"
        assert text(asm.store_gs32(reg, base, offset)) == f"mov dword ptr {place}, {NARROW[reg]}"
        assert text(asm.store_gs32_immediate(base, offset, 0x12345)) == f"mov dword ptr {place}, 0x12345"
        assert text(asm.load_gs_based(reg, base, offset)) == f"mov {WIDE[reg]}, qword ptr {place}"
        assert text(asm.cmp_gs_based(reg, base, offset)) == f"cmp {WIDE[reg]}, qword ptr {place}"
        assert text(asm.cmpxchg_gs_based(reg, base, offset)) == f"cmpxchg qword ptr {place}, {WIDE[reg]}"
        assert text(asm.inc_gs_based(base, offset)) == f"inc qword ptr {place}"
        assert text(asm.lea(reg, base, offset)) == f"lea {WIDE[reg]}, [{WIDE[base]}{signed(offset)}]"


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("reg", range(16))
def test_encode_a_bit_test(reg: int, base: int) -> None:
    assert text(asm.bit_test(base, reg)) == f"bt dword ptr [{WIDE[base]}], {NARROW[reg]}"


@pytest.mark.parametrize("base", BASES)
def test_encode_operations_on_bits_of_a_byte(base: int) -> None:
    assert text(asm.test_byte_immediate(base, 0x41)) == f"test byte ptr [{WIDE[base]}], 0x41"


@pytest.mark.parametrize("offset", [8, 0x1F2C0, -0x1000])
def test_encode_operations_on_bits_of_a_per_cpu_word(offset: int) -> None:
    place = f"gs:[{offset & (1 << 64) - 1:#x}]" if offset > 9 or offset < 0 else f"gs:[{offset}]"
    assert text(asm.test_gs32_immediate(offset, 0xFF0100)) == f"test dword ptr {place}, 0xff0100"


@pytest.mark.parametrize("reg", range(16))
@pytest.mark.parametrize("offset", [0, 8, -0x80, 0x1000])
def test_encode_accesses_of_the_stack(reg: int, offset: int) -> None:
    place = f"[rsp{signed(offset)}]"
    assert text(asm.lea_stack(reg, offset)) == f"lea {WIDE[reg]}, {place}"
    assert text(asm.store_stack(reg, offset)) == f"mov qword ptr {place}, {WIDE[reg]}"
    assert text(asm.load_stack(reg, offset)) == f"mov {WIDE[reg]}, qword ptr {place}"
    assert text(asm.cmp_stack_zero(offset)) == f"cmp qword ptr {place}, 0"


@pytest.mark.parametrize("offset", [0, 4, 127])
def test_encode_operations_on_a_word_on_the_stack(offset: int) -> None:
    assert text(asm.store_stack_immediate(offset, 0x89ABCDEF)) == f"mov dword ptr [rsp{signed(offset)}], 0x89abcdef"


@pytest.mark.parametrize("reg", range(16))
def test_encode_instructions_with_one_register(reg: int) -> None:
    assert text(asm.rdfsbase(reg)) == f"rdfsbase {WIDE[reg]}"
    assert text(asm.and_immediate(reg, 0xFFFFF)) == f"and {NARROW[reg]}, 0xfffff"
    assert text(asm.move_immediate(reg, 0xFFFFFFFE)) == f"mov {NARROW[reg]}, 0xfffffffe"
    assert text(asm.add_rip(reg) + b"\x10\0\0\0") == f"add {WIDE[reg]}, qword ptr [rip + 0x10]"
    for source in range(16):
        assert text(asm.move(reg, source)) == f"mov {WIDE[reg]}, {WIDE[source]}"
        assert text(asm.add(reg, source)) == f"add {WIDE[reg]}, {WIDE[source]}"


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("reg", range(16))
def test_encode_loads_and_stores(reg: int, base: int) -> None:
    for offset in (0, 8, -0x80, 0x80, 0x1234):
        place = f"[{WIDE[base]}{signed(offset)}]"
        assert text(asm.store(reg, base, offset)) == f"mov qword ptr {place}, {WIDE[reg]}"
        assert text(asm.store32(reg, base, offset)) == f"mov dword ptr {place}, {NARROW[reg]}"
        assert text(asm.load32(reg, base, offset)) == f"mov {NARROW[reg]}, dword ptr {place}"
        assert text(asm.store32_immediate(base, offset, 0x12345)) == f"mov dword ptr {place}, 0x12345"
    assert text(asm.inc_gs_at(base)) == f"inc qword ptr gs:[{WIDE[base]}]"


LOWER = ("al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil", *(f"r{n}b" for n in range(8, 16)))
WORDS = ("ax", "cx", "dx", "bx", "sp", "bp", "si", "di", *(f"r{n}w" for n in range(8, 16)))


@pytest.mark.parametrize("base", [asm.RSP, asm.RBP])
@pytest.mark.parametrize("reg", range(16))
def test_values_in_frames(reg: int, base: int) -> None:
    for offset in (0, 0x1234, -8):
        place = f"[{WIDE[base]}{signed(offset)}]"
        assert text(asm.load_frame(reg, base, offset, 8)) == f"mov {WIDE[reg]}, qword ptr {place}"
        assert text(asm.load_frame(reg, base, offset, 4)) == f"mov {NARROW[reg]}, dword ptr {place}"
        assert text(asm.load_frame(reg, base, offset, 2)) == f"movzx {NARROW[reg]}, word ptr {place}"
        assert text(asm.load_frame(reg, base, offset, 1)) == f"movzx {NARROW[reg]}, byte ptr {place}"
    assert text(asm.narrow(reg, 4)) == f"mov {NARROW[reg]}, {NARROW[reg]}"
    assert text(asm.narrow(reg, 2)) == f"movzx {NARROW[reg]}, {WORDS[reg]}"
    assert text(asm.narrow(reg, 1)) == f"movzx {NARROW[reg]}, {LOWER[reg]}"


@pytest.mark.parametrize("reg", range(16))
def test_encode_more_instructions_with_one_register(reg: int) -> None:
    assert text(asm.push(reg)) == f"push {WIDE[reg]}"
    assert text(asm.pop(reg)) == f"pop {WIDE[reg]}"
    assert text(asm.move_immediate64(reg, -0x1000)) == f"movabs {WIDE[reg]}, 0xfffffffffffff000"
    assert text(asm.test(reg)) == f"test {WIDE[reg]}, {WIDE[reg]}"
    assert text(asm.shift_left(reg, 22)) == f"shl {NARROW[reg]}, 0x16"
    assert text(asm.shift_right(reg, 4)) == f"shr {NARROW[reg]}, 4"
    assert text(asm.multiply_immediate(reg, 0x70000001)) == f"imul {NARROW[reg]}, {NARROW[reg]}, 0x70000001"
    if reg not in (asm.RSP, asm.R12):
        assert text(asm.cmp_byte_zero(reg, 0x100)) == f"cmp byte ptr [{WIDE[reg]} + 0x100], 0"
    for source in range(16):
        assert text(asm.or_into(reg, source)) == f"or {NARROW[reg]}, {NARROW[source]}"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (asm.LAHF, "lahf"),
        (asm.PUSHF, "pushfq"),
        (asm.POPF, "popfq"),
        (asm.CLD, "cld"),
        (asm.SAHF, "sahf"),
        (asm.SETO_AL, "seto al"),
        (asm.ADD_AL_127, "add al, 0x7f"),
        (asm.RDTSC, "rdtsc"),
        (asm.SHL_RDX_32, "shl rdx, 0x20"),
        (asm.OR_RAX_RDX, "or rax, rdx"),
        (asm.INT3, "int3"),
        (asm.JMP32 + b"\x10\0\0\0", "jmp 0x1015"),
        (asm.CALL32 + b"\x10\0\0\0", "call 0x1015"),
        (asm.CALL_NEXT[:5], "call 0x1006"),
        (asm.CALL_NEXT[5:], "int3"),
        (asm.LEA_R11_RIP + b"\x10\0\0\0", "lea r11, [rip + 0x10]"),
        (asm.JMP8 + b"\x10", "jmp 0x1012"),
        (asm.JNE32 + b"\x10\0\0\0", "jne 0x1016"),
        (asm.JA32 + b"\x10\0\0\0", "ja 0x1016"),
        (asm.JZ32 + b"\x10\0\0\0", "je 0x1016"),
        (asm.JMP_NEXT, "notrack jmp qword ptr ds:[rip]"),
        (asm.RET, "ret"),
        (asm.PUSH32 + b"\0\0\0\x81", "push -0x7f000000"),
        (asm.STORE_AT_4 + b"\x45\x23\1\0", "mov dword ptr [rsp + 4], 0x12345"),
        (asm.push_immediate(0xFFFFFFFF81000000), "push -0x7f000000"),
        (asm.test_eax(0xFFFF), "test eax, 0xffff"),
        (asm.JC32 + b"\x10\0\0\0", "jb 0x1016"),
    ],
)
def test_encode_constants(code: bytes, expected: str) -> None:
    assert text(code) == expected


def test_flags_come_back_from_lahf_and_seto() -> None:
    """All 64 combinations of the status flags survive the pair that a patch saves them with."""
    from tests.oracle.relocate import run

    save = asm.LAHF + asm.SETO_AL + asm.move(asm.RBX, asm.RAX)
    spoil = bytes.fromhex("31c0 f8")  # xor eax, eax; clc
    restore = asm.move(asm.RAX, asm.RBX) + asm.ADD_AL_127 + asm.SAHF
    for n in range(64):
        flags = sum(bit for i, bit in enumerate((0x1, 0x4, 0x10, 0x40, 0x80, 0x800)) if n >> i & 1)
        assert run(save + spoil + restore, AT, flags=0x202 | flags).flags & 0x8D5 == flags


def test_every_encoder_has_a_test() -> None:
    with open(__file__) as file:
        source = file.read()
    public = [name for name, value in vars(asm).items() if not name.startswith("_") and _is_encoder(value)]
    assert len(public) > 15
    assert [name for name in public if f"asm.{name}" not in source] == []


def _is_encoder(value: object) -> bool:
    here: Callable[..., object] | None = value if inspect.isfunction(value) else None
    return isinstance(value, bytes) or (here is not None and here.__module__ == asm.__name__)


def test_a_jump_that_is_not_taken_has_the_opposite_condition() -> None:
    names = [text(asm.jump_unless(condition) + bytes(4)).split()[0] for condition in range(16)]
    taken = ["jno", "jo", "jae", "jb", "jne", "je", "ja", "jbe", "jns", "js", "jnp", "jp", "jge", "jl", "jg", "jle"]
    assert names == taken
