# SPDX-License-Identifier: LGPL-2.1-or-later
"""Changes of a process that may end at any moment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from gilk.errors import TargetError


@contextlib.contextmanager
def unless_ended() -> Iterator[None]:
    """A process that ends just now needs no change of its code any more; that it has ended is noticed elsewhere."""
    try:
        yield
    except TargetError as error:
        if error.slug != "no-such-process":
            raise
