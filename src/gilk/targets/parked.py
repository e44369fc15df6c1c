# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds signal frames that wait on stacks on which no thread is.

A handler that calls swapcontext(3) leaves its frame behind on the stack that it was called on, and may come back to it
much later, in any thread. No stack pointer leads there, so all of the process's own memory is searched for frames.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from io import FileIO

from gilk.targets.alive import of_memory
from gilk.targets.frames import FRAME_SIZE, SignalFrame, aligned, frame_at, is_frame
from gilk.targets.maps import Mapping, read_maps
from gilk.targets.memory import Memory
from gilk.targets.used_pages import used

_PART = 16 << 20  # bytes read at a time


def parked_frames(pid: int, restorers: frozenset[int], memory: Memory, seen: Collection[int]) -> Iterator[SignalFrame]:
    """All frames in the process's own memory, except those whose ``slot`` is in ``seen``. Some may remain from handlers
    that have ended. Raises TargetError `no-such-process`, `no-permission`."""
    words = [restorer.to_bytes(8, "little") for restorer in restorers]
    for start, end in _in_use(pid, [m for m in read_maps(pid) if _may_hold_stacks(m)]):
        for at in range(start, end, _PART):
            content = memory.some(at, min(_PART + FRAME_SIZE, end - at))
            yield from (frame for frame in _frames_of(content, at, words) if frame.slot not in seen)


def _may_hold_stacks(mapping: Mapping) -> bool:
    if mapping.path in ("[heap]", "[stack]"):
        return True
    return mapping.permissions.startswith("rw") and not mapping.path.startswith(("/memfd:gilk-", "/dev/", "["))


def _pagemap(tid: int) -> FileIO:
    return open(f"/proc/{tid}/pagemap", "rb", buffering=0)


def _in_use(pid: int, mappings: list[Mapping]) -> Iterator[tuple[int, int]]:
    """The ranges of pages that are in memory or in swap."""
    with contextlib.suppress(OSError), of_memory(pid, _pagemap) as file:
        for mapping in mappings:
            yield from used(file.fileno(), mapping.start, mapping.end)


def _frames_of(content: bytes, start: int, words: list[bytes]) -> Iterator[SignalFrame]:
    for word in words:
        for at in aligned(content, word):
            if at + FRAME_SIZE <= len(content) and is_frame(content, at):
                yield frame_at(content, start, at)
