# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes splices over code, page by page, after checking that the code is as expected."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gilk.targets.batch import Batch, Byte, Int
from gilk.targets.memory import Memory
from gilk.values import dataclass

_PAGE = 4096


@dataclass(frozen=True)
class Change:
    """Bytes to change, one a row: at ``at``, from ``old`` to ``new``; ``at`` is ascending and without repeats."""

    at: Int
    old: Byte
    new: Byte

    def undone(self) -> Change:
        return Change(self.at, self.new, self.old)

    def only(self, rows: NDArray[np.bool_]) -> Change:
        return self if rows.all() else Change(self.at[rows], self.old[rows], self.new[rows])


class Mismatch(Exception):
    """Code is not as the plan expects; ``args[0]`` is the first address that differs."""


def combine(removed: list[Batch], added: list[Batch]) -> Change:
    """One change that undoes ``removed`` and does ``added``."""
    parts = [(b.at, b.new, b.old) for b in removed] + [(b.at, b.old, b.new) for b in added]
    if not parts:
        return Change(np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.uint8))
    at, old, new = (np.concatenate([part[i] for part in parts]) for i in range(3))
    order = np.argsort(at, kind="stable")
    at, old, new = at[order], old[order], new[order]
    first = np.ones(len(at), np.bool_)
    first[1:] = at[1:] != at[:-1]
    last = np.ones(len(at), np.bool_)
    last[:-1] = at[1:] != at[:-1]
    return Change(at[first], old[first], new[last])


def write(memory: Memory, change: Change, lenient: bool = False) -> int:
    """Write the pages that change; returns how many bytes differed from what was expected.

    Nothing is written when anything differs, unless ``lenient``: then bytes that are not gilk's any more (the code was
    unmapped or replaced) are left alone. Raises Mismatch, also for memory that is not mapped.
    """
    prepared = []
    strangers = 0
    for start, size, low, high in _runs(change.at):
        at, old, new = change.at[low:high] - start, change.old[low:high], change.new[low:high]
        try:
            content = np.frombuffer(bytearray(memory.read(start, size)), np.uint8)
        except OSError:
            if not lenient:
                raise Mismatch(int(change.at[low])) from None
            strangers += high - low
            continue
        if len(content) < size:
            content = np.pad(content, (0, size - len(content)))
        same = content[at] == old
        if not same.all():
            if not lenient:
                raise Mismatch(int(change.at[low:high][~same][0]))
            strangers += int((~same).sum())
            at, new = at[same], new[same]
        content[at] = new
        prepared.append((start, content))
    for start, content in prepared:
        memory.write(start, content.tobytes())
    return strangers


def overwrite(memory: Memory, at: Int, new: Byte) -> None:
    """Write bytes at ascending addresses, whatever is there. Raises OSError."""
    for start, size, low, high in _runs(at):
        content = np.frombuffer(bytearray(memory.read(start, size)), np.uint8)
        if len(content) < size:  # the process has ended
            raise OSError(errno.EIO, "the memory is not there any more")
        content[at[low:high] - start] = new[low:high]
        memory.write(start, content.tobytes())


def current(memory: Memory, at: Int) -> Byte:
    """The bytes at ascending addresses. Raises OSError."""
    found = np.empty(len(at), np.uint8)
    for start, size, low, high in _runs(at):
        found[low:high] = np.frombuffer(memory.read(start, size), np.uint8)[at[low:high] - start]
    return found


def differing(memory: Memory, at: Int, expected: Byte) -> int:
    """How many mapped bytes at ascending addresses are not as ``expected``."""
    count = 0
    for start, size, low, high in _runs(at):
        try:
            content = np.frombuffer(memory.read(start, size), np.uint8)
        except OSError:
            continue
        inside = at[low:high] - start < len(content)
        count += int((content[(at[low:high] - start)[inside]] != expected[low:high][inside]).sum())
    return count


def _runs(at: Int) -> Iterator[tuple[int, int, int, int]]:
    """The runs of adjacent pages that hold bytes of ``at`` (ascending): (start, size, first row, end row)."""
    if not len(at):
        return
    pages = at // _PAGE
    cuts = np.flatnonzero(np.diff(pages) > 1) + 1
    edges = [0, *cuts.tolist(), len(at)]
    for low, high in itertools.pairwise(edges):
        start, end = int(pages[low]) * _PAGE, (int(pages[high - 1]) + 1) * _PAGE
        yield start, end - start, low, high
