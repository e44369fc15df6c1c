# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``lockstat``: locks that are taken and let go, waits for them, and how long these took. Types:
library/kernel/lockstat.d.

Flags of contention_begin: 1 the waiting task spins, 2 it is a reader, 4 a writer, 8 and 16 the lock is of other kinds,
32 it is a mutex. A wait for a lock may begin anew, as when a spinning task goes to sleep: the latest beginning counts.

Functions that take a lock note it at their entry. They end with the lock, or without it, or by a tail call to a
function that waits for it: so the returns of both functions are looked at, without those tail calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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


_HAS, _MAY, _TRIED = "1", "(int)arg1 >= 0", "(int)arg1 == 1"  # when a function returns with the lock
_SAVING = ("", "_irq", "_irqsave", "_bh")
_RESTORING = ("", "_irq", "_irqrestore", "_bh")
_MUTEXES = {
    "d:mutex_lock": _HAS,
    "r:mutex_lock_io": _HAS,  # which has the mutex when it ends by a tail call
    "d:mutex_lock_interruptible": _MAY,
    "d:mutex_lock_killable": _MAY,
    "d:mutex_trylock": _TRIED,
    "d:__mutex_lock": _MAY,
    "d:__mutex_lock.*": _MAY,
}
_THAT_WAITS = ("__mutex_lock", "__mutex_lock.*")
_SPINS = {
    **dict.fromkeys((f"d:_raw_spin_lock{kind}" for kind in _SAVING), _HAS),
    **dict.fromkeys(("d:_raw_spin_trylock", "d:_raw_spin_trylock_bh"), _TRIED),
    "d:native_queued_spin_lock_slowpath": _HAS,
}


def _of_side(side: str) -> dict[str, str]:
    plain = dict.fromkeys((f"d:_raw_{side}_lock{kind}" for kind in (*_SAVING, "_nested")), _HAS)
    return {**plain, f"d:_raw_{side}_trylock": _TRIED, f"d:queued_{side}_lock_slowpath": _HAS}


def _taken(kind: str, places: dict[str, str], own: str, side: str = "") -> Iterator[str]:
    """The lines of the probe for taken locks. ``own``: how its variables are called; ``side``: its second argument."""
    waits = ("slowpath", *_THAT_WAITS)
    for place in places:
        if not place.endswith(waits):
            yield f"{kind}-acquire | e:{place[2:]} | (self->for_{own} = arg0, 0) |"
    for place, has in places.items():
        noted = f"self->got_{own} = {has} ? self->for_{own} : 0, self->for_{own} = 0, self->got_{own} != 0"
        yield f"{kind}-acquire | {place} | ({noted}) | self->got_{own}{side}"


def _refused() -> Iterator[str]:
    """The lines of the probe for mutexes that a task does not get because of a signal."""
    for function in ("mutex_lock_interruptible", "mutex_lock_killable"):
        yield f"adaptive-acquire-error | e:{function} | (self->tried = arg0, 0) |"
        yield f"adaptive-acquire-error | d:{function} | (int)arg1 < 0 && self->tried != 0 | self->tried; (int)arg1"
    for function in _THAT_WAITS:
        noted = "self->failed = (int)arg1 < 0 ? self->tried : 0, self->tried = 0, self->failed != 0"
        yield f"adaptive-acquire-error | d:{function} | ({noted}) | self->failed; (int)arg1"


def _let_go(name: str, functions: Sequence[str], side: str = "") -> Iterator[str]:
    yield from (f"{name} | e:{function} | | arg0{side}" for function in functions)


def _all() -> Iterator[str]:
    for name, (flags, sides) in _WAITS.items():
        yield from _lines(name, flags, sides)
    yield from _taken("adaptive", _MUTEXES, "mutex")
    yield from _refused()
    yield from _let_go("adaptive-release", ("mutex_unlock",))
    yield from _taken("spin", _SPINS, "spin")
    yield from _let_go("spin-release", [f"_raw_spin_unlock{kind}" for kind in _RESTORING])
    for number, side in enumerate(("read", "write")):
        yield from _taken("rw", _of_side(side), side, f"; {number}")
        yield from _let_go("rw-release", [f"_raw_{side}_unlock{kind}" for kind in _RESTORING], f"; {number}")


_ROWS = table.rows("\n".join(_all()))
NOT_SEEN = {
    **dict.fromkeys(("rw-upgrade", "rw-downgrade"), "that a lock changes sides is seen at no one place"),
    "thread-spin": "Linux has no locks of threads",
}


def probes(target: HasKernel, description: Description) -> Iterator[KernelProbe]:
    """The probes of the table."""
    return table.probes("lockstat", _ROWS, target, description)
