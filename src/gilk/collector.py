# SPDX-License-Identifier: LGPL-2.1-or-later
"""Turns off Python's garbage collector while programs are analysed and planned."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """A context, or a decorator, without the garbage collector: functions and plans are hundreds of thousands of small
    values, none of them in a cycle, and to look for cycles among them takes a quarter of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
