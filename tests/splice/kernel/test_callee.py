# SPDX-License-Identifier: LGPL-2.1-or-later
"""Claims about a compiled function hold when it runs."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from gilk.arch.effects import CALLER_SAVED
from gilk.image.elf import load
from gilk.splice.kernel.callee import examine
from tests.oracle.relocate import GPRS, run

FLAGS = ("-O2", "-ffreestanding", "-nostdlib", "-static", "-mgeneral-regs-only", "-fcf-protection=none", "-fno-pic")
SOURCE = """
unsigned long data[64];
void nothing(void) {}
void one(void) { data[0]++; }
void numbered(unsigned iid) { data[iid & 63]++; }
void loop(unsigned iid) { for (unsigned i = 0; i < (iid & 7); i++) data[i] ^= data[63 - i] * 3; }
unsigned long many(unsigned iid) { unsigned long a = data[1] / (data[2] | 1), b = data[3] << (iid & 31);
	return a * b + (data[a & 63] ^ data[b & 63]) + data[iid & 63]; }
void calls(unsigned iid) { void (*volatile f)(unsigned) = numbered; f(iid); }
void goes(unsigned iid) { __asm__ volatile("jmp nothing"); }
void saves(unsigned iid) {
	register unsigned long x __asm__("rbx") = data[iid & 63];
	__asm__ volatile("inc %0" : "+r"(x));
}
void _start(void) {}
"""
CONSERVATIVE = {"calls", "goes"}


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, bytes]]:
    directory: Path = tmp_path_factory.mktemp("callee")
    source, program = directory / "callee.c", directory / "callee"
    source.write_text(SOURCE)
    subprocess.run(["cc", *FLAGS, "-o", program, source], check=True)
    image = load(program)
    return {span.name: (span.start, image.read(span.start, span.end - span.start)) for span in image.spans}


@pytest.mark.parametrize("name", ["nothing", "one", "numbered", "loop", "many", "saves"])
def test_a_function_changes_only_the_claimed_registers(functions: dict[str, tuple[int, bytes]], name: str) -> None:
    address, code = functions[name]
    told = examine(code, address)
    rng = random.Random(name)
    for _ in range(50):
        start = {reg: rng.getrandbits(64) for reg in GPRS if reg != "rsp"}
        state = run(code, address, start, memory={})
        changed = {reg for reg in start if state.gpr[reg] != start[reg]}
        assert changed <= {reg for n, reg in enumerate(GPRS) if told.clobbers >> n & 1}


@pytest.mark.parametrize(("name", "numbered"), [("nothing", False), ("one", False), ("numbered", True), ("many", True)])
def test_functions_that_read_their_number_are_recognised(
    functions: dict[str, tuple[int, bytes]], name: str, numbered: bool
) -> None:
    address, code = functions[name]
    assert examine(code, address).numbered is numbered


@pytest.mark.parametrize("name", sorted(CONSERVATIVE))
def test_a_function_that_calls_others_may_change_all_caller_saved_registers(
    functions: dict[str, tuple[int, bytes]], name: str
) -> None:
    address, code = functions[name]
    assert examine(code, address) == (CALLER_SAVED, True)


def test_a_small_function_clobbers_few_registers(functions: dict[str, tuple[int, bytes]]) -> None:
    address, code = functions["one"]
    assert examine(code, address).clobbers == 0


def test_a_jump_to_the_return_thunk_is_a_return() -> None:
    """The code is incq %rax; jmp thunk; int3, as modules are compiled."""
    code, address, thunk = b"\x48\xff\xc0\xe9\x00\x10\x00\x00\xcc", 0xFFFFFFFFC0000000, 0xFFFFFFFFC0001008
    assert examine(code, address, {thunk}) == (1 << 0, False)
    assert examine(code, address) == (CALLER_SAVED, True)
