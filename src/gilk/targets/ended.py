# SPDX-License-Identifier: LGPL-2.1-or-later
"""Deeds to a process that may end at any moment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from gilk.errors import TargetError


@contextlib.contextmanager
def unless_ended() -> Iterator[None]:
    """A context that ignores the error of a process that has just ended (TargetError `no-such-process`): its code needs
    no change, nothing more of it is to be seen, and its end is noticed elsewhere."""
    try:
        yield
    except TargetError as error:
        if error.slug != "no-such-process":
            raise
