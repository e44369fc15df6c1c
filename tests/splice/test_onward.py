# SPDX-License-Identifier: LGPL-2.1-or-later
"""The instruments of calls that go on in other functions: their numbers are those of C, and their order at a point."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gilk.arch.decode import decode
from gilk.splice import onward
from gilk.splice.instrument import Instrument, Stamp
from gilk.splice.onward import EntersAnew, IfItJumps, NotesJump, PassesOn, ReturnsFromAll
from gilk.toolchain.compilers import NATIVE

PROGRAM = """
#include <stddef.h>
#include <stdio.h>
#include "abi/gilk_onward.h"
int main(void)
{
	printf("%zu %zu %d %u", sizeof(struct gilk_onward), offsetof(struct gilk_onward, serial), GILK_ONWARD_CLIENTS,
		gilk_onward_hash(0x7ffc12345678UL));
	return offsetof(struct gilk_onward, open);
}
"""


def test_the_table_is_that_of_c(tmp_path: Path) -> None:
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    subprocess.run(["gcc", "-I", NATIVE, "-o", tmp_path / "program", source], check=True)
    said = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True).stdout
    hashed = (0x12345678 * onward.FACTOR & 0xFFFFFFFF) >> 32 - onward.HASH_BITS
    assert said == f"{onward.SIZE} {onward.SERIALS_AT} {onward.CLIENTS} {hashed}"


@pytest.mark.parametrize("condition", range(16))
@pytest.mark.parametrize("form", [b"\x70\x02", b"\x0f\x80\2\0\0\0"], ids=["short", "near"])
def test_the_condition_of_a_jump_is_that_of_its_opcode(condition: int, form: bytes) -> None:
    at = len(form) > 2
    code = form[:at] + bytes((form[at] | condition,)) + form[at + 1 :]
    assert onward.condition_of(decode(code, 0x1000)[0]) == condition


@pytest.mark.parametrize("code", [b"\xe3\x02", b"\xeb\x02", b"\xe2\x02", b"\xc3"])
def test_other_instructions_have_no_condition(code: bytes) -> None:
    assert onward.condition_of(decode(code, 0x1000)[0]) is None


def test_notes_are_dropped_before_all_else_and_made_after_it() -> None:
    enters, passes, returns = EntersAnew(0, 0), IfItJumps(4, PassesOn(0, 0)), ReturnsFromAll(0, 0)
    notes, first, second = NotesJump(0, 1, False), Stamp(1), Stamp(2)
    given: list[Instrument] = [passes, first, notes, enters, second, returns]
    assert onward.in_order(given) == [enters, first, second, passes, notes, returns]
