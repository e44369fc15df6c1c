# SPDX-License-Identifier: LGPL-2.1-or-later
"""struct gd_environment (native/runtime/d/program.h): what clauses know of the time and of the process."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from gilk.target.process import Process
from gilk.trace.clock import Clock, realtime_offset

_SHIFT = 24
_FIELDS = struct.Struct("<QQQIIIIII64s")


def environment(clock: Clock, process: Process | None) -> bytes:
    pid = os.getpid() if process is None else process.pid
    name, ppid, uid, gid = _status(pid)
    mult = round((1 << _SHIFT) / clock.ticks_per_ns)
    wall = clock.ns0 + realtime_offset()
    return _FIELDS.pack(clock.tsc0, clock.ns0, wall, mult, _SHIFT, ppid, uid, gid, 0, name[:63])


def _status(pid: int) -> tuple[bytes, int, int, int]:
    """Name, parent, user and group, as /proc/PID/status has them."""
    rows = dict(line.split(b":", 1) for line in Path(f"/proc/{pid}/status").read_bytes().splitlines() if b":" in line)
    first = {name: int(rows[name].split()[0]) for name in (b"PPid", b"Uid", b"Gid")}
    return rows[b"Name"].strip(), first[b"PPid"], first[b"Uid"], first[b"Gid"]
