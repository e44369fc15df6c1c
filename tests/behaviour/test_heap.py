# SPDX-License-Identifier: LGPL-2.1-or-later
"""A heap can grow as it would without gilk, also one that is not there yet when the instruments are put in.

What fails otherwise is seen in errno only, with a C library that maps memory when brk(2) finds no room; an allocator
of the program's own that has nothing but sbrk would be out of memory.
"""

from __future__ import annotations

import gilk
from tests.behaviour.harness import redirected

_GROWTH = 64 << 20  # bytes


def test_a_launched_program_keeps_the_room_for_its_heap() -> None:
    """The oracle is where the kernel then says that it is."""
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
