# SPDX-License-Identifier: LGPL-2.1-or-later
"""A heap can grow as it would without gilk, even one that does not exist yet when the instruments are put in.

A failure shows only in errno if the C library maps memory when brk(2) finds no room; a program with an allocator of its
own that uses only sbrk would be out of memory.
"""

from __future__ import annotations

import gilk
from tests.behaviour.harness import redirected

_GROWTH = 64 << 20  # bytes


def test_gilk_keeps_the_room_for_a_launched_programs_heap_free() -> None:
    """The oracle is the place where the kernel then puts the heap."""
    with redirected() as (out, _):
        with gilk.launch(["/bin/cat", "/proc/self/maps"]) as target:
            assert not any(mapping.path == "[heap]" for mapping in target.process.maps())
            occupied = target.process.occupied()
            target.resume()
            target.process.wait(block=True)
        out.seek(0)
        line = next(line for line in out.read().decode().splitlines() if line.endswith("[heap]"))
    start = int(line.split("-")[0], 16)
    assert not any(occupied.free(at, at + 4096) for at in range(start, start + _GROWTH, 4096))
    assert occupied.free(start + _GROWTH, start + _GROWTH + 4096)
