# SPDX-License-Identifier: LGPL-2.1-or-later
"""Listings and graphs."""

from __future__ import annotations

import re
import subprocess

import pytest

from gilk.analysis.analysis import Analysis
from gilk.analysis.graph import listing, live_names, to_dot
from gilk.analysis.model import EVERYTHING, FLAGS_LIVE, Function


@pytest.fixture
def some(bash: Analysis) -> Function:
    return next(f for f in bash.functions() if 10 < len(f.blocks) < 60 and f.calls)


def test_every_block_has_a_heading_with_its_number(bash: Analysis, some: Function) -> None:
    text = listing(some, bash)
    assert [int(n) for n in re.findall(r"^@(\d+)  ", text, re.MULTILINE)] == [b.index for b in some.blocks]


def test_every_instruction_is_listed_with_its_offset(bash: Analysis, some: Function) -> None:
    offsets = {int(n, 16) for n in re.findall(r"^    \+0x([0-9a-f]+) ", listing(some, bash), re.MULTILINE)}
    assert offsets == {s.instruction.ip - some.start for b in some.blocks for s in bash.steps(some, b)}


def test_imported_callees_are_named(bash: Analysis, some: Function) -> None:
    names = {bash.image.plt[target] for _, target in some.calls if target in bash.image.plt}
    for name in names:
        assert f"{name}@plt" in listing(some, bash)


def test_the_graph_has_a_node_for_each_block_and_an_edge_for_each_successor(bash: Analysis, some: Function) -> None:
    text = to_dot(some, bash)
    assert len(re.findall(r"^    b\d+ \[label", text, re.MULTILINE)) == len(some.blocks)
    edges = {(int(a), int(b)) for a, b in re.findall(r"b(\d+) -> b(\d+)", text)}
    at = {block.start: block.index for block in some.blocks}
    assert edges == {(block.index, at[s]) for block in some.blocks for s in block.successors}


def test_graphviz_draws_every_block_of_the_dot_output(bash: Analysis, some: Function) -> None:
    done = subprocess.run(["dot", "-Tplain"], input=to_dot(some, bash), capture_output=True, text=True, check=True)
    assert done.stdout.count("\nnode b") == len(some.blocks)


def test_a_mask_of_live_registers_is_shown_by_names() -> None:
    assert live_names(FLAGS_LIVE | 1 | 1 << 15) == ["rax", "r15", "flags"]
    assert len(live_names(EVERYTHING)) == 17
