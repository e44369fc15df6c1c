# SPDX-License-Identifier: LGPL-2.1-or-later
"""Unwind tables agree with readelf's, row by row; and malformed programs do no harm."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gilk.image.cfi import END, NOTHING, SIGNAL, Common, FrameRule, How, rows, stub_threshold
from gilk.image.elf import load
from gilk.image.unwind import Unwind, unwind

_PLACES = {"rax": 0, "rcx": 1, "rdx": 2, "rbx": 3, "rsp": 4, "rbp": 5, "rsi": 6, "rdi": 7, "r10": 10, "r11": 11}
_CFA = re.compile(r"(\w+)\+(\d+)$")


def interpreted(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of each FDE: the address where each begins, and its cells by the name of the column."""
    columns: list[str] = []
    of_function = False
    for line in text.splitlines():
        words = re.sub(r"(?<=\S) \((\w+)\)", "", line).split()
        if not words:
            columns = []
        elif "FDE cie=" in line or " CIE " in line:
            of_function = "FDE cie=" in line
        elif words[0] == "LOC":
            columns = words
        elif columns and of_function and len(words) == len(columns):
            yield int(words[0], 16), dict(zip(columns, words, strict=True))


def rule_at(table: Unwind, address: int) -> FrameRule:
    row = int(np.searchsorted(table.starts, address - table.base, "right")) - 1
    return table.rules[table.ids[row]] if row >= 0 else NOTHING


def expected(cells: dict[str, str]) -> FrameRule | None:
    """The rule for the cells; None for an expression, or if the return address is not in its usual place."""
    cfa = _CFA.match(cells["CFA"])
    saved = [cells.get(name, "u") for name in ("rbp", "rbx")]
    if cfa is None or cfa[1] not in _PLACES or cells.get("ra") != "c-8" or "exp" in saved:
        return None
    places = [int(cell[1:]) << 1 if cell.startswith("c") else 0 for cell in saved]
    if cfa[0] == "rsp+8":
        places = [0, 0]
    return FrameRule(How.PLAIN, _PLACES[cfa[1]], int(cfa[2]), 0, -8, *places)


@pytest.mark.parametrize(
    "path",
    [
        "/bin/bash",
        *(
            pytest.param(path, marks=pytest.mark.stress)
            for path in ("/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/usr/bin/gdb")
        ),
    ],
)
def test_rows_are_those_of_readelf(path: str, oracle: Callable[..., str]) -> None:
    if not Path(path).exists():
        pytest.skip(f"{path} is not there")
    table = unwind(load(Path(path)))
    text = oracle("readelf", "-W", "--debug-dump=frames-interp,no-follow-links", path)
    checked = skipped = 0
    for address, cells in interpreted(text):
        rule, found = expected(cells), rule_at(table, address)
        if rule is None or found in (SIGNAL, END):
            skipped += 1
            continue
        checked += 1
        assert found == rule, f"{address:#x}: {cells}"
    assert checked > 1000
    assert skipped < checked / 50


@given(st.binary(max_size=60), st.binary(max_size=20))
@settings(max_examples=300)
def test_any_unwind_program_gives_ordered_rows(program: bytes, common: bytes) -> None:
    """The rows are in order, and no rule has a large offset."""
    found = rows(Common(1, -8, common), program)
    assert [at for at, _ in found] == sorted(at for at, _ in found)
    assert all(rule.how in How and abs(rule.offset) < 1 << 28 for _, rule in found)
    assert stub_threshold(program) is None or b"\x0f\x0b\x77\x08\x80\x00" in program


def test_unsupported_unwind_rules_give_no_row() -> None:
    plain = bytes([0x0C, 7, 8, 0x80 | 16, 1])
    common = Common(1, -8, plain)
    assert rows(common, b"") == [(0, FrameRule(How.PLAIN, 4, 8, 0, -8))]
    assert rows(common, bytes([0x07, 16])) == [(0, END)]  # undefined: nothing calls it
    assert rows(common, bytes([0x0F, 3, 0x76, 0x78, 0x06])) == [(0, FrameRule(How.DEREF, 5, -8, 0, -8))]
    assert rows(common, bytes([0x0F, 1, 0x9C])) == [(0, NOTHING)]  # an expression of another kind
    assert rows(common, bytes([0x3F])) == [(0, NOTHING)]  # an instruction that does not exist
    assert rows(common, bytes([0x09, 16, 2])) == [(0, FrameRule(How.PLAIN, 4, 8, 2, -8))]  # in RCX: its place, plus one
