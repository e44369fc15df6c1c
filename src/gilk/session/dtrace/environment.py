# SPDX-License-Identifier: LGPL-2.1-or-later
"""struct gd_environment (native/runtime/d/program.h): what clauses know of the time and of the process."""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from gilk.trace.clock import Clock, realtime_offset

if TYPE_CHECKING:
    from gilk.target.process import Process

_SHIFT = 24
_FIELDS = struct.Struct("<QQQIIIIIIII64s256s")


def environment(clock: Clock, process: Process | None) -> bytes:
    pid = os.getpid() if process is None else process.pid
    status = _status(pid)
    (uid, euid), (gid, egid) = (map(int, status[name].split()[:2]) for name in (b"Uid", b"Gid"))
    mult = round((1 << _SHIFT) / clock.ticks_per_ns)
    wall = clock.ns0 + realtime_offset()
    numbers = int(status[b"PPid"]), uid, gid, euid, egid, 0
    return _FIELDS.pack(
        clock.tsc0, clock.ns0, wall, mult, _SHIFT, *numbers, status[b"Name"].strip()[:63], _root(pid)[:255]
    )


def _status(pid: int) -> dict[bytes, bytes]:
    """Rows of /proc/PID/status."""
    text = Path(f"/proc/{pid}/status").read_bytes()
    return dict(line.split(b":", 1) for line in text.splitlines() if b":" in line)


def _root(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return os.fsencode(os.readlink(f"/proc/{pid}/root"))
    return b"<unknown>"
