# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``lockstat``: waits for locks, and how long they took. Types: library/kernel/lockstat.d.

Flags of contention_begin: 1 the waiting task spins, 2 it is a reader, 4 a writer, 8 and 16 the lock is of other kinds,
32 it is a mutex. A wait for a lock may begin anew, as when a spinning task goes to sleep: the latest beginning counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from gilk.lang.d.probes import Description
from gilk.providers.kernel import table
from gilk.providers.kernel.probe import HasKernel, KernelProbe

_FLAGS = "(uint32_t)arg1"
_SIDES = f"({_FLAGS} & 6) != 0 && ({_FLAGS} & 57)"
#: The condition on the flags of each probe, and whether the probe tells readers from writers.
_WAITS = {
    "adaptive-block": (f"{_FLAGS} == 32", False),
    "adaptive-spin": (f"{_FLAGS} == 33", False),
    "spin-spin": (f"{_FLAGS} == 1", False),
    "rw-spin": (f"{_SIDES} == 1", True),
    "rw-block": (f"{_SIDES} == 0", True),
}


def _lines(name: str, flags: str, sides: bool) -> Iterator[str]:
    """The lines of a probe: one where the wait begins, which notes the time, whose last bit says writer or reader if
    there are ``sides``; and one where it ends."""
    own = name.replace("-", "_")
    time = f"(timestamp & ~1) + (({_FLAGS} & 4) != 0)" if sides else "timestamp"
    told = f"; self->from_{own} & 1" if sides else ""
    yield f"{name} | t:contention_begin | (self->at_{own}[arg0] = {flags} ? {time} : 0, 0) |"
    yield (
        f"{name} | t:contention_end | (self->from_{own} = self->at_{own}[arg0], self->at_{own}[arg0] = 0, "
        f"self->from_{own} != 0) | arg0; timestamp - (self->from_{own} & ~1){told}"
    )


_ROWS = table.rows("\n".join(line for name, (flags, sides) in _WAITS.items() for line in _lines(name, flags, sides)))
_FREE, _GONE = "that a lock was free is seen at no one place", "that a lock is let go is seen at no one place"
NOT_SEEN = {
    **dict.fromkeys(("adaptive-acquire", "adaptive-acquire-error", "spin-acquire", "rw-acquire"), _FREE),
    **dict.fromkeys(("adaptive-release", "spin-release", "rw-release"), _GONE),
    **dict.fromkeys(("rw-upgrade", "rw-downgrade"), "that a lock changes sides is seen at no one place"),
    "thread-spin": "Linux has no locks of threads",
}


def probes(target: HasKernel, description: Description) -> Iterator[KernelProbe]:
    """The probes of the table."""
    return table.probes("lockstat", _ROWS, target, description)
