# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Python layout is the C layout, and a planned geometry fits itself."""

from __future__ import annotations

import mmap
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gilk.errors import StoreError
from gilk.trace import layout
from gilk.trace.layout import Geometry, RingClass, Shared

ABI = Path(layout.__file__).parents[1] / "native/abi"

STRUCTS = {
    "gilk_record_stamp": layout.STAMP,
    "gilk_record_integer": layout.INTEGER,
    "gilk_record_args": layout.ARGS,
    "gilk_record_regs": layout.REGS,
    "gilk_ring_class": layout.RING_CLASS,
    "gilk_control": layout.CONTROL,
    "gilk_ring": layout.RING,
    "gilk_advising": layout.ADVISING,
    "gilk_block": layout.BLOCK,
    "gilk_gate": layout.GATE,
}
HEAD = ("tsc", "iid", "sp")
UNION = ("reg", "text")


def c_member(struct: str, field: str) -> str:
    if struct.startswith("gilk_record") and field in HEAD:
        return f"head.{field}"
    return f"u.{field}" if field in UNION and struct == "gilk_record_regs" else field


def test_every_field_has_its_offset_in_c(tmp_path: Path) -> None:
    lines, expected = [], []
    for struct, dtype in STRUCTS.items():
        lines.append(f'printf("%zu\\n", sizeof(struct {struct}));')
        expected.append(dtype.itemsize)
        assert dtype.fields is not None
        for field, (kind, offset, *_) in dtype.fields.items():
            member = c_member(struct, field)
            lines.append(f'printf("%zu\\n", offsetof(struct {struct}, {member}));')
            lines.append(f'printf("%zu\\n", sizeof(((struct {struct} *)0)->{member}));')
            expected += [offset, kind.itemsize]
    assert c_values(tmp_path, lines) == expected


def test_constants_are_those_of_c(tmp_path: Path) -> None:
    names = ("GILK_MAGIC", "GILK_ABI_VERSION", "GILK_PAGE", "GILK_CLASSES")
    values = c_values(tmp_path, [f'printf("%zu\\n", (size_t){name});' for name in names])
    assert values == [layout.MAGIC, layout.ABI_VERSION, layout.PAGE, layout.CLASSES]
    names = ("GILK_GATES_AT", "GILK_GATES", "GILK_GATE_CLOSED", "GILK_GATE_ARMED", "GILK_GATE_REACHED")
    values = c_values(tmp_path, [f'printf("%zu\\n", (size_t){name});' for name in names])
    assert values == [layout.GATES_AT, layout.GATES, layout.CLOSED, layout.ARMED, layout.REACHED]
    parts = ("PARTS_AT", "PARTS", "IID_BITS")
    values = c_values(tmp_path, [f'printf("%zu\\n", (size_t)GILK_{name});' for name in parts])
    assert values == [layout.PARTS_AT, layout.PARTS, layout.IID_BITS]
    assert tuple(record.itemsize for record in layout.RECORDS) == layout.RECORD_SIZES


def c_values(tmp_path: Path, statements: list[str]) -> list[int]:
    source = tmp_path / "layout.c"
    body = "\n".join(statements)
    source.write_text(f'#include <stddef.h>\n#include <stdio.h>\n#include "gilk_abi.h"\nint main(void){{{body}}}\n')
    program = tmp_path / "layout"
    subprocess.run(["cc", "-Wall", "-Werror", f"-I{ABI}", "-o", program, source], check=True)
    return [int(line) for line in subprocess.run([program], check=True, capture_output=True).stdout.split()]


def sparse(size: int) -> tuple[int, mmap.mmap]:
    fd = os.memfd_create("gilk-test")
    os.ftruncate(fd, size)
    return fd, mmap.mmap(fd, size)


@pytest.mark.parametrize("classes", [set(), {0}, {1, 3}, {0, 1, 2, 3}])
def test_parts_of_a_block_do_not_overlap_and_are_page_aligned(classes: set[int]) -> None:
    geometry = Geometry.plan(1000, classes, threads=3, ring_bytes=100_000)
    parts = [(0, layout.PAGE), (layout.PAGE, 8000)]
    parts += [(ring.offset, ring.size) for ring in geometry.rings if ring.size]
    assert {n for n, ring in enumerate(geometry.rings) if ring.size} == classes
    assert all(ring.size == 1 << 17 for ring in geometry.rings if ring.size)
    for (at, size), (following, _) in zip(parts, [*parts[1:], (geometry.stride, 0)], strict=True):
        assert at % layout.PAGE == 0
        assert at + size <= following
    assert geometry.size == layout.PAGE + 3 * geometry.stride


def test_initialised_memory_has_its_layout_and_stays_sparse() -> None:
    geometry = Geometry.plan(100_000, {0, 1, 2, 3}, threads=200)
    fd, memory = sparse(geometry.size)
    geometry.initialise(memoryview(memory))
    assert Geometry.read(memoryview(memory)) == geometry
    shared = Shared(geometry, memory)
    assert (shared.heads["ring"]["limit"] == 1 << 20).all()
    assert os.fstat(fd).st_blocks * 512 <= 201 * layout.PAGE
    assert geometry.size > 900 << 20
    os.close(fd)


@pytest.mark.parametrize("what", [("magic", 1), ("version", 9), ("blocks", 0), ("blocks", 5000), ("stride", 1 << 63)])
def test_an_impossible_control_page_is_refused(what: tuple[str, Any]) -> None:
    geometry = Geometry.plan(10, {0}, threads=2, ring_bytes=4096)
    memory = bytearray(geometry.size)
    geometry.initialise(memoryview(memory))
    np.frombuffer(memory, layout.CONTROL, 1)[what[0]] = what[1]
    with pytest.raises(StoreError) as caught:
        Geometry.read(memoryview(memory))
    assert caught.value.slug == "stream-corrupt"


def test_shared_memory_cut_short_is_refused() -> None:
    geometry = Geometry.plan(10, {0}, threads=2, ring_bytes=4096)
    memory = bytearray(geometry.size)
    geometry.initialise(memoryview(memory))
    for size in (0, 100, layout.PAGE, geometry.size - 1):
        with pytest.raises(StoreError):
            Geometry.read(memoryview(memory)[:size])


def test_a_ring_inside_the_counters_is_refused() -> None:
    memory = bytearray(1 << 20)
    Geometry(2, 4096, 65536, 1000, (RingClass(8192, 4096), *[RingClass()] * 3)).initialise(memoryview(memory))
    with pytest.raises(StoreError):
        Geometry.read(memoryview(memory))
