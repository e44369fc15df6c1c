# SPDX-License-Identifier: LGPL-2.1-or-later
"""The emulator's verdicts, on code whose effect is known."""

from __future__ import annotations

import random

import pytest

from tests.oracle.relocate import FS_BASE, STACK, differences, initial_byte, run

AT = 0x400FFA  # code that crosses into the next page
ELSEWHERE = 0x7000_0000


def load(address: int) -> int:
    return int.from_bytes(bytes(initial_byte(address + i) for i in range(8)), "little")


def test_the_emulator_runs_code_to_its_end() -> None:
    state = run(bytes.fromhex("4801d8 48ffc8 90"), AT, {"rax": 5, "rbx": 7})  # add rax,rbx; dec rax; nop
    assert (state.gpr["rax"], state.rip, state.steps, state.fault) == (11, AT + 7, 3, None)


@pytest.mark.parametrize(
    ("text", "registers", "rip"),
    [
        ("eb10", {}, AT + 0x12),  # jmp +0x10
        ("ffe0", {"rax": 0x1234}, 0x1234),  # jmp rax
        ("ffe0", {"rax": STACK}, STACK),  # into data that is there
        ("c3", {}, load(STACK)),  # ret
        ("e8fb0f0000", {}, AT + 0x1000),  # call
        ("7402", {}, AT + 2),  # jz, not taken
        ("7502", {}, AT + 4),  # jnz, taken
    ],
)
def test_the_emulator_reports_where_control_went(text: str, registers: dict[str, int], rip: int) -> None:
    state = run(bytes.fromhex(text), AT, registers)
    assert (state.rip, state.fault) == (rip, None)


def test_a_call_writes_its_return_address() -> None:
    state = run(bytes.fromhex("e8fb0f0000"), AT)
    assert state.gpr["rsp"] == STACK - 8
    assert bytes(state.writes[STACK - 8 + i] for i in range(8)) == (AT + 5).to_bytes(8, "little")
    assert len(state.writes) == 8


def test_initial_memory_depends_on_the_address_only() -> None:
    code = bytes.fromhex("488b03")  # mov rax,[rbx]
    states = [run(code, at, {"rbx": 0x123456}) for at in (AT, ELSEWHERE)]
    assert [state.gpr["rax"] for state in states] == [load(0x123456)] * 2


def test_a_store_does_not_outlive_its_run() -> None:
    run(bytes.fromhex("480103"), AT, {"rax": 1, "rbx": 0x5000})  # add [rbx],rax
    assert run(bytes.fromhex("488b03"), AT, {"rbx": 0x5000}).gpr["rax"] == load(0x5000)


def test_the_code_reads_the_given_memory() -> None:
    state = run(bytes.fromhex("488b03"), AT, {"rbx": 0x4FFC}, {0x4FFC: b"\1\2\3\4", 0x5000: b"\5\6\7\x08"})
    assert state.gpr["rax"] == 0x0807060504030201


def test_segment_registers_have_bases() -> None:
    assert run(bytes.fromhex("64488b042528000000"), AT).gpr["rax"] == load(FS_BASE + 0x28)  # mov rax,fs:[0x28]


@pytest.mark.parametrize("before", ["f7f1", "0f0b", "cc"])  # a fault must not influence the next run
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("90f7f1", "interrupt 0"),  # div ecx
        ("90cc", "interrupt 3"),  # int3
        ("900f0b", "INSN_INVALID"),  # ud2
        ("900f05", "syscall"),
        ("90ebfe", "limit"),  # jmp to itself
    ],
)
def test_a_fault_is_reported_at_its_instruction(before: str, text: str, fault: str) -> None:
    run(bytes.fromhex(before), AT)
    state = run(bytes.fromhex(text), AT, {"rax": 1})
    assert (state.fault, state.rip) == (fault, AT + 1)


def test_the_emulator_stops_at_given_addresses() -> None:
    assert run(b"\x90" * 5, AT, stop={AT + 3}).rip == AT + 3


def test_a_repeated_string_instruction_writes_all_its_bytes() -> None:
    state = run(bytes.fromhex("f3a4"), AT, {"rcx": 10, "rdi": 0x4FFB, "rsi": 0x6000})  # rep movsb
    assert state.writes == {0x4FFB + i: initial_byte(0x6000 + i) for i in range(10)}


def test_vector_registers_and_flags_are_part_of_the_state() -> None:
    state = run(bytes.fromhex("660fefc9 660fd4c2 f9"), AT, xmm={0: 5, 1: 9, 2: 1 << 64 | 3})  # pxor; paddq; stc
    assert (state.xmm[0], state.xmm[1], state.flags & 1) == (1 << 64 | 8, 0, 1)


def test_differences_name_the_parts_of_the_state_that_differ() -> None:
    one = run(bytes.fromhex("ffc0 50"), AT, {"rax": 1})  # inc eax; push rax
    other = run(bytes.fromhex("ffc8 50"), AT, {"rax": 1})  # dec eax; push rax
    names = [line.split(":")[0] for line in differences(one, other)]
    assert names == ["rax", "flags", f"[{STACK - 8:#x}]"]
    assert differences(one, one) == []
    assert differences(one, other, ignore=("rax", "flags", "writes")) == []


def test_position_independent_code_does_the_same_elsewhere() -> None:
    rng = random.Random(1)
    code = bytes.fromhex("488d4b08 480fafcf 48894c24f8 0f94c0 4811d9 8b7c24fc")  # lea, imul, store, setz, adc, load
    for _ in range(50):
        registers = {name: rng.getrandbits(64) for name in ("rax", "rbx", "rcx", "rdi")}
        states = [run(code, at, registers) for at in (AT, ELSEWHERE)]
        assert differences(*states, ignore=("rip",)) == []


def test_position_dependent_code_differs_elsewhere() -> None:
    states = [run(bytes.fromhex("488d0500000000"), at) for at in (AT, ELSEWHERE)]  # lea rax,[rip]
    assert [line.split(":")[0] for line in differences(*states, ignore=("rip",))] == ["rax"]


def test_an_unknown_register_is_refused() -> None:
    with pytest.raises(ValueError, match="eax"):
        run(b"\x90", AT, {"eax": 1})
