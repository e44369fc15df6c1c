# SPDX-License-Identifier: LGPL-2.1-or-later
"""The environment of clauses (struct gd_environment in native/runtime/d/environment.h): what they know of time and
process."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

from gilk.targets.status import ancestors, status_of
from gilk.trace.clock import Clock, realtime_offset

_FIELDS = struct.Struct("<QQQIIIIIIII64s256s")
_ANCESTORS = 16


@lru_cache(maxsize=64)
def factor(clock: Clock) -> tuple[int, int]:
    """The ns of a tick as clauses have them: the first number, of 32 bits, divided by 2 to the power of the second."""
    shift = 63
    while (found := round((1 << shift) / clock.ticks_per_ns)) >> 32:
        shift -= 1
    return found, shift


def in_ns(clock: Clock, tsc: int) -> int:
    """The time in ns that `timestamp` has in a clause when the counter is ``tsc`` (program.h, gd_at): by another
    rounding, the times of a call's beginning and of its end would drift apart."""
    mult, shift = factor(clock)
    return clock.ns0 + ((tsc - clock.tsc0) * mult >> shift)


class Described(Protocol):
    """A process, as far as its environment goes: the lines of its status in /proc, and its root directory."""

    @property
    def pid(self) -> int: ...
    def status(self) -> Mapping[bytes, bytes]: ...
    def root(self) -> bytes: ...


def environment(clock: Clock, process: Described | None, program: int = 0) -> bytes:
    """The environment for clauses about a process, or about gilk itself. ``program``: the program's number in a
    tree."""
    status = status_of("self") if process is None else process.status()
    (uid, euid), (gid, egid) = (map(int, status[name].split()[:2]) for name in (b"Uid", b"Gid"))
    mult, shift = factor(clock)
    wall = clock.ns0 + realtime_offset()
    numbers = int(status[b"PPid"]), uid, gid, euid, egid, program
    name, root = status[b"Name"][:63], _root(process)[:255]
    fields = _FIELDS.pack(clock.tsc0, clock.ns0, wall, mult, shift, *numbers, name, root)
    return fields + _ancestors("self" if process is None else process.pid) + _ancestors("self")


def _ancestors(pid: int | str) -> bytes:
    found = ancestors(pid)
    kept = found if len(found) <= _ANCESTORS else (*found[: _ANCESTORS - 1], found[-1])
    return struct.pack(f"<{_ANCESTORS}I", *kept, *(0,) * (_ANCESTORS - len(kept)))


def elsewhere(clock: Clock, wall: int) -> bytes:
    """The environment for clauses in a kernel, which has only the time; all else is read from the kernel's tasks.

    ``wall``: ns from 1970 to the clock's 0.
    """
    mult, shift = factor(clock)
    return _FIELDS.pack(clock.tsc0, clock.ns0, wall + clock.ns0, mult, shift, *(0,) * 6, b"", b"")


def _root(process: Described | None) -> bytes:
    with contextlib.suppress(OSError):
        return os.fsencode(os.readlink("/proc/self/root")) if process is None else process.root()
    return b"<unknown>"
