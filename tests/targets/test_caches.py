# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory that is read before code is changed is the memory that will be executed, and a writer keeps its place."""

from __future__ import annotations

import os

import numpy as np
import pytest

from gilk.targets import caches
from gilk.targets.batch import Batch
from gilk.targets.copies import Copy

NONE = np.empty(0, np.int64)
CODE, SPARE, SHELF, PATCH = 0x400000, 0x10000000, 0x20000000, 0x30000000


def batch(at: list[tuple[int, int]], patches: list[tuple[int, int, int]]) -> Batch:
    """A batch of bytes of code and of patches, each with its unit."""
    a, p = np.array(at, np.int64).reshape(-1, 2), np.array(patches, np.int64).reshape(-1, 3)
    code, true = np.zeros(len(a), np.uint8), np.empty(0, np.bool_)
    units = ("f", "g")
    return Batch(units, a[:, 0], code, code, a[:, 1], NONE, NONE, true, NONE, NONE, NONE, p[:, 0], p[:, 1], p[:, 2])


def test_pages_of_the_copy_and_of_patches_that_a_unit_changes_are_read() -> None:
    code = Copy(CODE, 0x100000, SPARE, SHELF)
    one = batch([(CODE + 0x3010, 0), (CODE + 0x10, 0), (CODE + 0x80010, 1)], [(PATCH + 0xFF0, PATCH + 0x1010, 0)])
    assert caches.ranges([one], [code]) == [(SPARE, 0x4000), (SPARE + 0x80000, 0x1000), (PATCH, 0x2000)]
    assert caches.ranges([one.only({1})], [code]) == [(SPARE + 0x80000, 0x1000)]
    assert caches.ranges([one], []) == [(PATCH, 0x2000)], "code that is not exchanged is where it was"


def test_the_memory_read_is_that_of_the_version_not_executed() -> None:
    executed = Copy(CODE, 0x100000, SPARE, SHELF, in_force=True)
    assert caches.ranges([batch([(CODE, 0)], [])], [executed]) == [(SHELF, 0x1000)]


def test_nearby_pages_are_read_together_up_to_the_size_of_a_cache() -> None:
    near = batch([(CODE, 0), (CODE + 0x4000, 1)], [])
    assert caches.ranges([near], [Copy(CODE, 0x100000, SPARE, SHELF)]) == [(SPARE, 0x5000)]
    vast = batch([(CODE, 0), (CODE + (64 << 20), 0)], [])
    assert sum(size for _, size in caches.ranges([vast], [Copy(CODE, 65 << 20, SPARE, SHELF)])) == 4 << 20


def test_without_changes_no_pages_are_read() -> None:
    assert caches.ranges([], [Copy(CODE, 0x1000, SPARE, SHELF)]) == []
    assert caches.ranges([batch([], [])], [Copy(CODE, 0x1000, SPARE, SHELF)]) == []


def test_the_writer_stays_on_one_processor_and_gets_its_affinity_back() -> None:
    allowed = os.sched_getaffinity(0)
    with pytest.raises(ZeroDivisionError), caches.elsewhere():
        assert len(os.sched_getaffinity(0)) == 1
        raise ZeroDivisionError
    assert os.sched_getaffinity(0) == allowed
