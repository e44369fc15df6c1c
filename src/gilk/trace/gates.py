# SPDX-License-Identifier: LGPL-2.1-or-later
"""Places in the program that the client waits for (native/runtime/gate.c).

A gate that holds its thread gives the client time to change the program before the thread goes on. The wait is a futex
in the shared memory: the client runs as soon after the hit as a process can be woken.
"""

from __future__ import annotations

import ctypes
import errno
from typing import Any

import numpy as np

from gilk.trace.layout import ARMED, CLOSED, GATE, GATES, GATES_AT, REACHED, Array
from gilk.values import dataclass

_FUTEX, _WAIT, _WAKE = 202, 0, 1
_ROUND = 0.01  # the seconds for which a round holds a thread
_libc = ctypes.CDLL(None, use_errno=True)


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


@dataclass(frozen=True)
class Reached:
    """A hit of a gate: the thread, and the time stamp counter at that moment."""

    tsc: int
    pid: int
    tid: int


class Gates:
    """The gates of one memory object; each has a number below ``GATES``."""

    def __init__(self, buffer: Any) -> None:
        self._rows: Array = np.ndarray((GATES,), GATE, buffer, GATES_AT)

    def arm(self, number: int, hits: int = 1, hold: float = 0.0) -> None:
        """Have the gate count ``hits`` hits from now on; the last of them is held for up to ``hold`` seconds."""
        row = self._rows[number]
        if row["state"] == ARMED:  # in other states no hit is counted, and a held thread would go on too soon
            row["state"] = CLOSED
        row["left"], row["rounds"] = hits, int(hold / _ROUND)
        row["state"] = ARMED

    def wait(self, number: int, seconds: float) -> Reached | None:
        """The hit of a gate, as soon as there is one; None after ``seconds``. A held thread stays held until
        ``open``.
        """
        reached = self.reached(number)
        if reached is None and seconds > 0:
            self._futex(number, _WAIT, ARMED, seconds)
            reached = self.reached(number)
        return reached

    def reached(self, number: int) -> Reached | None:
        row = self._rows[number]
        if row["state"] != REACHED:
            return None
        return Reached(int(row["tsc"]), int(row["pid"]), int(row["tid"]))

    def hold(self, number: int, seconds: float) -> None:
        """Have the gate hold its thread for that many seconds at most, from now on."""
        self._rows[number]["rounds"] = int(seconds / _ROUND)

    def open(self, number: int) -> None:
        """Let the held thread go on; the gate counts no hits any more."""
        self._rows[number]["state"] = CLOSED
        self.wake(number)

    def wake(self, number: int) -> None:
        """Have the held thread look at the state."""
        self._futex(number, _WAKE, 1 << 30, 0)

    def open_all(self) -> None:
        for number in range(GATES):
            self.open(number)

    def _futex(self, number: int, operation: int, value: int, seconds: float) -> None:
        """Call futex(2), shared. An early return for any reason does no harm: the caller looks at the state."""
        address = self._rows[number : number + 1].ctypes.data
        limit = _Time(int(seconds), int(seconds % 1 * 1e9))
        time = ctypes.byref(limit) if operation == _WAIT else None
        result = _libc.syscall(_FUTEX, ctypes.c_void_p(address), operation, ctypes.c_uint32(value), time, None, 0)
        assert result >= 0 or ctypes.get_errno() in (errno.EAGAIN, errno.ETIMEDOUT, errno.EINTR), ctypes.get_errno()
