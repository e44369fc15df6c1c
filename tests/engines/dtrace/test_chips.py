# SPDX-License-Identifier: LGPL-2.1-or-later
"""The chips and nodes of processors agree with lscpu(1) on this machine, and with a table for others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gilk.engines.dtrace.chips import chosen
from gilk.targets import topology
from tests.lang.d.sessions import run
from tests.seldom import seldom


def test_chips_and_nodes_are_those_of_lscpu() -> None:
    done = subprocess.run(["lscpu", "-y", "-p=CPU,SOCKET,NODE"], capture_output=True, text=True, check=True)
    rows = [line.split(",") for line in done.stdout.splitlines() if not line.startswith("#")]
    assert topology.chips() == {int(cpu): int(chip) for cpu, chip, _ in rows if chip}
    assert topology.most() > max(int(cpu) for cpu, *_ in rows)
    assert topology.nodes() == {int(cpu): int(node) for cpu, _, node in rows if node}


@pytest.mark.parametrize(
    "known",
    seldom(
        [
            {0: 0, 1: 1, 2: 0, 3: 1, 7: 5},
            {number: number for number in range(400)},
            {},
            {0: 3},
            {0: 0, 1: 0, 2: 1, 3: 1},
            {number: number // 32 % 2 for number in range(256)},
        ],
        2,
    ),
)
def test_a_d_program_finds_the_chip_of_each_processor(tmp_path: Path, known: dict[int, int]) -> None:
    path = tmp_path / "table.d"
    lines = "".join(f'BEGIN {{ printf("%d ", of[{number}]); }}\n' for number in list(known)[:50] + list(known)[-5:])
    path.write_text(f"#pragma D option quiet\ninline int of[int N] = {chosen(known)};\n{lines}BEGIN {{ exit(0); }}\n")
    ran = run(path)
    wanted = [*known.values()][:50] + [*known.values()][-5:]
    assert ([int(word) for word in ran.output.split()], ran.errors) == (wanted, "")
