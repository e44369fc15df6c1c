# SPDX-License-Identifier: LGPL-2.1-or-later
"""The driver's rings, compiled here for user space: a reservation is interrupted at each of its instructions."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gilk.toolchain.compilers import NATIVE
from tests.seldom import seldom

HERE = Path(__file__).parent
KERNEL_HEADERS = ("linux/irqflags.h", "linux/percpu.h", "asm/local.h")  # kernel.h stands for them
STRICT = ("-Wall", "-Wextra", "-Werror")
GAP = "still = at_end(READ_ONCE(ring->wpos));"


def compiled(place: Path, rings: Path) -> Path:
    for name in KERNEL_HEADERS:
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).touch()
    include = [f"-I{place}", f"-I{NATIVE}", f"-I{NATIVE / 'ilk'}", f"-I{HERE}", "-include", "kernel.h"]
    command = ["cc", "-O2", "-D_GNU_SOURCE", *STRICT, *include, "-o", place / "nested", rings, HERE / "nested.c"]
    subprocess.run(command, check=True)
    return place / "nested"


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("rings"), NATIVE / "ilk" / "rings.c")


def interrupted(program: Path, *arguments: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize(
    ("flight", "laps", "burst", "times"),
    seldom([(0, 0, 1, 2), (0, 5, 65, 1), (1, 5, 1, 1), (0, 0, 63, 1), (0, 0, 65, 1), (0, 0, 300, 1), (1, 0, 65, 1)], 2),
)
def test_a_reservation_interrupted_at_each_instruction_loses_nothing(
    nested: Path, flight: int, laps: int, burst: int, times: int
) -> None:
    """64 records of 256 bytes fill a chunk, and 256 a ring; an interruption may fill more than that."""
    done = interrupted(nested, 3, flight, laps, burst, times)
    assert done.returncode == 0, done.stdout[-2000:]
    assert int(done.stdout) > 50


def test_the_smallest_records_fill_a_ring(nested: Path) -> None:
    done = interrupted(nested, 0, 0, 0, 1, 1)
    assert done.returncode == 0, done.stdout[-2000:]


def test_negative_control_without_rereading_the_position_a_chunk_stays_unfinished(tmp_path: Path) -> None:
    """Negative control: wpos is not read again once others are kept out."""
    source = (NATIVE / "ilk" / "rings.c").read_text()
    assert GAP in source
    (tmp_path / "rings.c").write_text(source.replace(GAP, "still = true;"))
    done = interrupted(compiled(tmp_path, tmp_path / "rings.c"), 3, 0, 0, 1, 1)
    assert done.returncode == 1 and "interrupted at" in done.stdout
