# SPDX-License-Identifier: LGPL-2.1-or-later
"""The table of the runtime's functions says what the C does: its calls are followed."""

from __future__ import annotations

import re

import pytest

from gilk.build.toolchain import NATIVE
from gilk.lang.operations import OPERATIONS
from gilk.lang.runtime import FUNCTIONS, Does

PATHS = [NATIVE / "host" / "process.h", *sorted((NATIVE / "runtime" / "d").glob("*.h"))]
TEXT = re.sub(r"/\*.*?\*/", "", "\n".join(path.read_text() for path in PATHS), flags=re.DOTALL)
_DEFINED = re.compile(r"^(static|GD_COLD)\b([^;{#]*?)\b(\w+)\([^;{()]*\)\n\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
BODIES = {found[3]: found[4] for found in _DEFINED.finditer(TEXT)}
COLD = {found[3]: found[2].strip() for found in _DEFINED.finditer(TEXT) if found[1] == "GD_COLD"}
#: What a function does if it comes to one of these.
MARKS = {
    Does.CALLS: {"host_syscall0", "host_syscall4", "host_syscall6"},
    Does.READS: {"host_peek", "host_peek_some"},
    Does.WRITES: {"host_poke"},
    Does.FAILS: {"gd_fail"},
    Does.SCRATCH: {"gd_claim_scratch"},
    Does.WALKS: {"gd_walk_stack"},
}
#: Made with each program (lang/d/unit.py).
PRINTED = {"gd_probe_text"}
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
def test_a_function_does_what_its_row_says(name: str) -> None:
    followed = Does.REGISTERS
    for each in MARKS:
        followed |= each
    assert FUNCTIONS[name].does & followed == does(name)


def test_cold_functions_are_those_that_are_declared_so() -> None:
    assert {name: each.result for name, each in FUNCTIONS.items() if each.cold} == {
        name: RESULTS[type_] for name, type_ in COLD.items()
    }


def test_operations_name_functions_that_there_are() -> None:
    assert all(each.functions or each.does is Does.NOTHING or each.name == "errno" for each in OPERATIONS.values())
    assert {function for each in OPERATIONS.values() for function in each.functions} <= FUNCTIONS.keys()
