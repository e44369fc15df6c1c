# SPDX-License-Identifier: LGPL-2.1-or-later
"""Jump tables of compiled switches: every case is found, nothing stays unknown."""

from __future__ import annotations

import pytest

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import End
from tests.analysis.conftest import Compile, function

CASES = 12
_MARK = 0x5A0000  # each case stores a number of its own, which its block must hold

SWITCH = (
    "volatile int out; int select(unsigned x) { switch (x) {"
    + "".join(f"case {i + FIRST}: out = {_MARK + i}; return out * {i + 3} + 1;" for FIRST in (0,) for i in range(CASES))
    + "} return -1; } int main(int c, char **v) { return select(c); }"
)
SPILLED = (
    "volatile int out; void other(void) { out++; } int (*volatile call)(int); int select(const unsigned char *p) {"
    "int n = 0; for (;; p++) { switch (*p) {"
    + "".join(f"case {i + 64}: out = {_MARK + i}; n += call(n + {i}); break;" for i in range(CASES))
    + "default: return n; } } } int main(int c, char **v) { return select((void *)v[0]); }"
)
OFFSET = SWITCH.replace("switch (x)", "switch (x + 70000)").replace("case ", "case 70000 + ")
NEGATIVE = SWITCH.replace("unsigned x", "int x").replace("switch (x)", "switch (x + 5)")
BYTE = SWITCH.replace("unsigned x", "unsigned char x")
MASKED = SWITCH.replace("switch (x)", "switch (x & 15)")
NO_DEFAULT = SWITCH.replace("} return -1;", "default: __builtin_unreachable(); }")
GOTO = (
    "volatile int out; int select(const unsigned char *p) { static const void *const labels[] = {"
    + ",".join(f"&&l{i}" for i in range(CASES))
    + "}; int n = 0; goto *labels[*p++];"
    + "".join(f"l{i}: out = {_MARK + i}; n += {i}; if (n > 999) return n; goto *labels[*p++];" for i in range(CASES))
    + "} int main(int c, char **v) { return select((void *)v[0]); }"
)
SOURCES = {
    "switch": SWITCH,
    "spilled": SPILLED,
    "offset": OFFSET,
    "negative": NEGATIVE,
    "byte": BYTE,
    "masked": MASKED,
    "no_default": NO_DEFAULT,
    "goto": GOTO,
}
FLAGS = {
    "O0": ["-O0"],
    "O2": ["-O2"],
    "Os": ["-Os"],
    "O0-no-pie": ["-O0", "-no-pie", "-fno-pie"],
    "O2-no-pie": ["-O2", "-no-pie", "-fno-pie"],
    "O3-cet": ["-O3", "-fcf-protection=full"],
    "O1-stripped": ["-O1", "-s"],
}


def stored_constants(analysis: Analysis, name: str | None) -> set[int]:
    """The marks that the reached instructions store."""
    functions = [function(analysis, name)] if name else list(analysis.functions())
    return {
        step.instruction.immediate(1) - _MARK
        for f in functions
        for block in f.blocks
        for step in analysis.steps(f, block)
        if step.instruction.op_count == 2 and 0 <= _immediate(step.instruction) - _MARK < CASES
    }


def _immediate(instruction: object) -> int:
    try:
        return int(instruction.immediate(1))  # type: ignore[attr-defined]
    except ValueError:
        return -1


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("source", SOURCES)
def test_every_case_of_a_switch_is_reached(compiled: Compile, source: str, flags: str) -> None:
    analysis = compiled(SOURCES[source], *FLAGS[flags])
    name = None if "stripped" in flags else "select"
    assert stored_constants(analysis, name) == set(range(CASES))
    assert [f.indirect for f in analysis.functions() if f.indirect] == []


@pytest.mark.parametrize("flags", ["O2", "O0", "O2-no-pie"])
def test_a_dense_switch_has_exactly_its_cases_and_default(compiled: Compile, flags: str) -> None:
    select = function(compiled(SWITCH, "-fno-jump-tables" if flags == "none" else "-g0", *FLAGS[flags]), "select")
    tables = [block for block in select.blocks if block.how is End.TABLE]
    assert len(tables) == 1
    assert len(tables[0].successors) == CASES


def test_system_images_have_no_unknown_jumps(bash: Analysis, libc: Analysis) -> None:
    for analysis in (bash, libc):
        unknown = {f.name: [hex(site) for site in f.indirect] for f in analysis.functions() if f.indirect}
        assert unknown == {}


def test_an_array_of_functions_is_a_tail_call(compiled: Compile) -> None:
    source = """
        static int a(int x) { return x + 1; }
        static int b(int x) { return x * 2; }
        static int c(int x) { return x ^ 3; }
        int (*table[])(int) = {a, b, c};
        int select(int i, int x) { return table[i](x); }
        int main(int n, char **v) { return select(n, n); }
    """
    select = function(compiled(source, "-O2"), "select")
    assert [block.how for block in select.blocks] == [End.TAIL_INDIRECT]
    assert select.indirect == ()
