# SPDX-License-Identifier: LGPL-2.1-or-later
"""The table of the runtime's functions agrees with the C, whose calls are followed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from iced_x86 import Mnemonic, Register

from gilk.arch.decode import decode
from gilk.lang.operations import OPERATIONS
from gilk.lang.runtime import FUNCTIONS, Does
from gilk.toolchain import relocatable
from gilk.toolchain.clobbers import of_function
from gilk.toolchain.compilers import NATIVE, compile_object
from gilk.toolchain.dprogram import program_flags

FOLDERS = [NATIVE / "runtime" / "d", NATIVE / "runtime" / "shared"]
PATHS = [NATIVE / "host" / "process.h", *(path for each in FOLDERS for path in sorted(each.glob("*.h")))]
TEXT = re.sub(r"/\*.*?\*/", "", "\n".join(path.read_text() for path in PATHS), flags=re.DOTALL)
_DEFINED = re.compile(r"^(static|GD_COLD)\b([^;{#]*?)\b(\w+)\([^;{()]*\)\n\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
BODIES = {found[3]: found[4] for found in _DEFINED.finditer(TEXT)}
COLD = {found[3]: found[2].strip() for found in _DEFINED.finditer(TEXT) if found[1] == "GD_COLD"}
#: The property of a function that reaches one of these.
MARKS = {
    Does.CALLS: {"host_syscall0", "host_syscall4", "host_syscall6"},
    Does.READS: {"host_peek", "host_peek_some"},
    Does.WRITES: {"host_poke"},
    Does.FAILS: {"gd_fail"},
    Does.SCRATCH: {"gd_claim_scratch"},
    Does.WALKS: {"gd_walk_stack"},
}
#: Functions that are generated with each program (lang/d/unit.py).
PRINTED = {"gd_probe_text"}
AT, BITS = 0x1000, {"rax": 1, "rdx": 4}
RESULTS = {"void": (), "gd_u32": ("rax",), "struct gd_filled": ("rax", "rdx")}


def reached(name: str) -> set[str]:
    seen: set[str] = set()
    left = [name]
    while left:
        function = left.pop()
        if function not in seen:
            seen.add(function)
            called = re.findall(r"\b(?:call )?(\w+)(?=\(|\\n)", BODIES[function])
            left += [each for each in called if each in BODIES]
    return seen


def does(name: str) -> Does:
    functions = reached(name)
    found = Does.NOTHING
    for each, marks in MARKS.items():
        found |= each if functions & marks else Does.NOTHING
    looks = any(re.search(r"event->regs\b", BODIES[function]) for function in functions)
    return found | (Does.REGISTERS if looks else Does.NOTHING)


@pytest.mark.parametrize("name", sorted(name for name in FUNCTIONS.keys() - PRINTED if not FUNCTIONS[name].cold))
def test_a_function_has_only_the_effects_in_its_row(name: str) -> None:
    followed = Does.REGISTERS
    for each in MARKS:
        followed |= each
    assert FUNCTIONS[name].does & followed == does(name)


def test_functions_marked_cold_are_those_declared_so_in_c() -> None:
    assert {name: each.result for name, each in FUNCTIONS.items() if each.cold} == {
        name: RESULTS[type_] for name, type_ in COLD.items()
    }


USES_COLD_ONES = """
#include "runtime/d/deeds.h"

__attribute__((used)) void use(struct gd_context *ctx, const void *key)
{
	gd_count(ctx, 1, 0, 0);
	gd_count(ctx, 2, key, 16);
	gd_reserve(ctx, 1, 8);
	gd_report(ctx, 1, 1, 0);
	gd_end(ctx);
}
"""


def test_cold_functions_preserve_registers_as_declared(tmp_path: Path) -> None:
    """In the compiled code, a cold function pushes every register that it or its callees change, except its
    result's."""
    source, output = tmp_path / "cold.c", tmp_path / "cold.o"
    source.write_text(USES_COLD_ONES)
    compile_object(source, output, ["-fPIC", *program_flags()])
    made = relocatable.parse(output.read_bytes())
    code = made.placed(AT, {})
    symbols = {name: (AT + part.offset, part.size) for name, part in made.symbols.items()}
    found = {}
    for name in symbols:
        plain = name.split(".")[0]
        if plain in COLD and ".cold" not in name:
            found[plain] = of_function(code, AT, name, symbols) & ~pushed(code, *symbols[name])
    assert found == {name: sum(BITS[each] for each in RESULTS[COLD[name]]) for name in COLD}


def pushed(code: bytes, at: int, size: int) -> int:
    instructions = decode(code[at - AT :][:size], at)
    saved = [one.op0_register for one in instructions if one.mnemonic == Mnemonic.PUSH]
    return sum(1 << (each - Register.RAX) for each in set(saved))


def test_operations_name_existing_functions() -> None:
    assert all(each.functions or each.does is Does.NOTHING or each.name == "errno" for each in OPERATIONS.values())
    assert {function for each in OPERATIONS.values() for function in each.functions} <= FUNCTIONS.keys()
