# SPDX-License-Identifier: LGPL-2.1-or-later
"""Taking the records of all sessions of a run out of their buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from gilk.session.base import BaseSession

TICK = 0.05  # seconds between looks at the buffers and at the processes
_CALM = 0.2  # how full a buffer may be, from 0 to 1, for there to be time to convert its records
_WAITING = 1 << 29  # bytes that may wait for conversion; beyond that, records are dropped rather than memory filled


def drain(sessions: Sequence[BaseSession], keep: Callable[[pa.Table], object]) -> float:
    """Take all records, and convert some if there is time; returns how many seconds to wait until the next time.

    ``keep`` is called with the converted records. A buffer that fills up within a tick is emptied more often, as long
    as there is memory for its records.
    """
    fullest = max((session.take() for session in sessions), default=0.0)
    waiting = sum(session.waiting for session in sessions)
    if fullest <= _CALM or waiting > _WAITING:
        for session in sessions:
            keep(session.convert())
        return 0.0 if any(session.waiting for session in sessions) else TICK
    return TICK * _CALM / fullest / 4
