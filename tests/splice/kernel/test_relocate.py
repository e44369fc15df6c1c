# SPDX-License-Identifier: LGPL-2.1-or-later
"""Instructions of the kernel elsewhere: calls that leave no trace, per-CPU variables, thunks."""

from __future__ import annotations

import pytest
from iced_x86 import Decoder

from gilk.arch import asm
from gilk.splice.code import CodeBuilder
from gilk.splice.relocate import relocate
from tests.splice.kernel.cpu import CODE, CPUS, END, STACK, Cpu

ORIGINAL = 0xFFFFFFFF81234560
FUNCTION = CODE + 0x8000  # within reach of both
STACK_AT = STACK + 0x3000


class Callee(Cpu):
    """Notes what a function finds on top of the stack, and goes to END instead of returning."""

    def __init__(self, code: bytes) -> None:
        super().__init__(code, {FUNCTION: type(self).entered})
        self.found: list[tuple[int, int]] = []

    def entered(self) -> None:
        self.found.append((self.read(self["rsp"]), self["rsp"]))
        self.write(self["rsp"], END)


def moved(code: bytes) -> bytes:
    builder = CodeBuilder()
    for instruction in Decoder(64, code, ip=ORIGINAL):
        at = instruction.ip - ORIGINAL
        relocate(builder, instruction, code[at : at + instruction.len], 0)
    builder.external(asm.JMP32, END, jump=True)
    return builder.finish().placed(CODE, {})


def run(code: bytes, **registers: int) -> Callee:
    cpu = Callee(moved(code))
    cpu.run({"rsp": STACK_AT, **registers}, 0x2)
    return cpu


def relative(opcode: bytes, target: int, tail: bytes = b"") -> bytes:
    distance = target - ORIGINAL - len(opcode) - 4 - len(tail)
    return opcode + (distance & 0xFFFFFFFF).to_bytes(4, "little") + tail


@pytest.mark.parametrize(
    ("code", "registers"),
    [
        (relative(b"\xe8", FUNCTION), {}),
        (bytes.fromhex("ffd0"), {"rax": FUNCTION}),  # call *%rax
        (bytes.fromhex("41ffd3"), {"r11": FUNCTION}),  # call *%r11
        (bytes.fromhex("3effd0"), {"rax": FUNCTION}),  # with a prefix
    ],
)
def test_a_relocated_call_pushes_the_original_return_address(code: bytes, registers: dict[str, int]) -> None:
    cpu = run(code, **registers)
    assert cpu.found == [(ORIGINAL + len(code), STACK_AT - 8)]


def test_a_relocated_call_through_the_stack_pointer() -> None:
    cpu = Callee(moved(bytes.fromhex("ff542408")))  # call *8(%rsp)
    cpu.write(STACK_AT + 8, FUNCTION)
    cpu.run({"rsp": STACK_AT}, 0x2)
    assert cpu.found == [(ORIGINAL + 4, STACK_AT - 8)]


def test_a_relocated_call_costs_three_instructions() -> None:
    assert run(relative(b"\xe8", FUNCTION)).trips == 3


@pytest.mark.parametrize("offset", [0x1000, 0x100, 0x1FF8])
def test_a_relocated_access_of_a_per_cpu_variable(offset: int) -> None:
    """Its address is small, and relative to the instruction: around the end of the address space."""
    cpu = Callee(moved(relative(bytes.fromhex("6548ff05"), offset)))  # incq %gs:offset(%rip)
    cpu.run({"rsp": STACK_AT}, 0x2)
    assert [cpu.read(base + offset) for base in CPUS] == [1, 0]


def test_a_relocated_access_of_a_kernel_variable() -> None:
    place = CODE + 0x100
    cpu = Callee(moved(relative(bytes.fromhex("488b05"), place)).ljust(0x100, b"\xcc") + bytes(range(8)))
    cpu.run({"rsp": STACK_AT}, 0x2)
    assert cpu["rax"] == int.from_bytes(bytes(range(8)), "little")


@pytest.mark.parametrize("flags", [0x2, 0x42])
def test_a_relocated_conditional_branch(flags: int) -> None:
    """je over a load."""
    taken = bytes.fromhex("7407") + bytes.fromhex("48c7c005000000")
    builder = CodeBuilder()
    instruction = Decoder(64, taken, ip=FUNCTION - 9).decode()
    relocate(builder, instruction, taken[:2], 0)
    builder.external(asm.JMP32, END, jump=True)
    cpu = Callee(builder.finish().placed(CODE, {}))
    cpu.run({"rsp": STACK_AT}, flags)
    assert bool(cpu.found) == bool(flags & 0x40)
