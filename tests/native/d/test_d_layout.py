# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Python layout is the C layout, and a memory describes its own layout."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gilk.errors import StoreError
from gilk.toolchain.compilers import NATIVE, compiler
from gilk.trace.d import layout
from gilk.trace.d.layout import MemoryLayout
from gilk.trace.d.memory import MemoryOptions, ProgramMemory

STRUCTS = {
    "gd_layout": layout.LayoutMembers,
    "gd_control": layout.Control,
    "gd_buffer": layout.Buffer,
    "gd_record": layout.RecordHead,
    "gd_fault_data": layout.FaultData,
    "gd_table": layout.TableHead,
    "gd_entry": layout.EntryHead,
    "gd_variable": layout.VariableHead,
    "gd_speculation": layout.Speculation,
}
CONSTANTS = {
    "GD_MAGIC": layout.MAGIC,
    "GD_VERSION": layout.VERSION,
    "GD_GRANULE": layout.GRANULE,
    "GD_MAX_RECORD": layout.MAX_RECORD,
    "GD_BANKS": layout.BANKS,
    "GD_REACH": layout.REACH,
    "GD_EXITED": layout.EXITED,
    "GD_EPID_FAULT": layout.EPID_FAULT,
    "GD_MIN_FLIP": layout.MIN_FLIP,
    "GD_MAX_FLIP": layout.MAX_FLIP,
    "GD_DROPS": layout.DROPS,
    "GD_BUSY": layout.Mark.BUSY,
    "GD_DONE": layout.Mark.DONE,
    "GD_VOID": layout.Mark.VOID,
    "GD_MARK_GRANULES": layout.MARK_GRANULES,
    "GD_MEMBER": layout.SLOT_MEMBER,
    "GD_SLOT_VERSION": layout.SLOT_VERSION,
    "GD_MARK_TID": layout.MARK_TID,
    "GD_MARK_LAP": layout.MARK_LAP,
    "GD_ACTIVE": layout.State.ACTIVE,
    "GD_DRAINING": layout.State.DRAINING,
    "GD_BEGINNING": layout.State.BEGINNING,
    "GD_FILL": layout.BufferPolicy.FILL,
    "GD_RING": layout.BufferPolicy.RING,
}


def test_structures_and_constants_are_those_of_the_header(tmp_path: Path) -> None:
    checks = [
        f"_Static_assert(sizeof(struct {name}) == {ctypes.sizeof(kind)}, {name!r});" for name, kind in STRUCTS.items()
    ]
    for name, kind in STRUCTS.items():
        for field, *_ in kind._fields_:
            place, member = getattr(kind, field), f"((struct {name} *)0)->{field}"
            checks.append(f"_Static_assert(__builtin_offsetof(struct {name}, {field}) == {place.offset}, {field!r});")
            checks.append(f"_Static_assert(sizeof({member}) == {place.size}, {field!r});")
    checks += [
        f"_Static_assert((unsigned long){name} == {int(value)}UL, {name!r});" for name, value in CONSTANTS.items()
    ]
    source = tmp_path / "layout.c"
    made = MemoryOptions(2).layout().c_source()
    source.write_text('#include "abi/gilk_d.h"\n' + "\n".join(checks).replace("'", '"') + "\n" + made)
    command = [*compiler(), "-std=gnu11", "-Wall", "-Wno-unused", "-Werror", "-I", str(NATIVE), "-c", str(source)]
    subprocess.run([*command, "-o", str(tmp_path / "layout.o")], check=True)


@given(
    options=st.builds(
        MemoryOptions,
        processors=st.integers(1, 300),
        bufsize=st.integers(0, 1 << 30),
        aggsize=st.integers(0, 1 << 30),
        dynvarsize=st.integers(0, 1 << 30),
        largest_variable=st.integers(8, 1000),
        nspec=st.integers(0, 20),
        specsize=st.integers(0, 1 << 30),
        strsize=st.integers(8, 5000),
        globals_size=st.integers(0, 1 << 20),
        aggregations=st.integers(0, 100),
        scratches=st.integers(1, 1000),
    )
)
def test_parts_of_the_memory_neither_overlap_nor_exceed_it(options: MemoryOptions) -> None:
    made = options.layout()
    parts = [
        (0, ctypes.sizeof(layout.Control)),
        (made.drops, made.buffers * 64),
        (made.generations, made.aggregations * 4),
        (made.globals, made.globals_size),
        (made.buffer_first, made.buffers * made.buffer_stride),
        (made.table_first, layout.BANKS * made.shards * made.table_stride),
        (made.dynamic_words, made.dynamic_slots * 8),
        (made.dynamic_reach, made.dynamic_slots * 4),
        (made.dynamic_first, made.dynamic_slots * made.dynamic_stride),
        (made.speculation_first, made.speculations * made.speculation_stride),
        (made.scratch_owner, made.scratches * 4),
        (made.scratch_first, made.scratches * made.scratch_size),
    ]
    parts.sort()
    for (at, size), (following, _) in zip(parts, [*parts[1:], (made.size, 0)], strict=True):
        assert at + size <= following
    assert made.buffer_marks + made.buffer_size // layout.GRANULE * 8 <= made.buffer_data
    assert made.buffer_data + made.buffer_size <= made.buffer_stride
    assert made.table_direct + made.aggregations * 4 <= made.table_slot
    assert made.table_slot + made.table_slots * 8 <= made.table_heap
    assert made.table_heap + made.heap_size <= made.table_stride
    assert made.sizes == options.sizes()


@pytest.fixture
def small() -> bytearray:
    made = MemoryOptions(1, bufsize=4096, aggsize=4096, dynvarsize=512, specsize=4096, scratches=1).layout()
    view = bytearray(made.size)
    ProgramMemory(made, view).initialise()
    return view


def test_a_layout_read_from_memory_is_the_planned_one(small: bytearray) -> None:
    assert MemoryLayout.read(memoryview(small)).buffer_size == 4096


@given(at=st.integers(0, ctypes.sizeof(layout.Control) - 1), bit=st.integers(0, 7))
@settings(max_examples=200)
def test_an_overwritten_control_page_is_refused_or_harmless(at: int, bit: int) -> None:
    made = MemoryOptions(1, bufsize=4096, aggsize=4096, dynvarsize=512, specsize=4096, scratches=1).layout()
    view = bytearray(made.size)
    ProgramMemory(made, view).initialise()
    view[at] ^= 1 << bit
    try:
        read = MemoryLayout.read(memoryview(view))
    except StoreError as error:
        assert error.slug == "stream-corrupt"
    else:
        assert read.size <= len(view)
        ProgramMemory(read, view)
