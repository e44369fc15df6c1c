# SPDX-License-Identifier: LGPL-2.1-or-later
"""The end of a session in its child process: the server is told first that everything is out, and whether the code is
what it was; then how far the summing up has come, which may take minutes and change nothing any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from gilk.web.frames import ServerChannel, ServerEnded

_EVERY: Final = 0.1  # the seconds between two states that are sent


class LeftOutError(Exception):
    """The report is not wanted any more; the file is complete."""


def never() -> bool:
    return False


class SummingUp:
    """Tells the server. ``is_unwanted`` returns whether the report is not wanted any more."""

    def __init__(self, channel: ServerChannel, is_unwanted: Callable[[], bool] = never) -> None:
        self._channel, self._is_unwanted = channel, is_unwanted
        self._told = (0.0, False)
        self._alone = False  # whether the server has ended

    def out(self, restored: bool | None) -> None:
        """Tell that everything is out. ``restored``: whether the code is what it was, None if that is not known."""
        with suppress(ServerEnded):
            self._channel.send({"state": {"out": {"restored": restored}}})

    def tell(self, what: str, is_filed: bool) -> None:
        """Tell what is being done (`SumTell`). Raises LeftOutError, only if the file is complete."""
        now = time.monotonic()
        if now - self._told[0] >= _EVERY or is_filed > self._told[1]:
            self._told = now, is_filed
            try:
                self._channel.send({"state": {"summing": {"what": what, "filed": is_filed}}})
            except ServerEnded:
                self._alone = True
        unwanted = self._is_unwanted() or self._alone
        if unwanted and is_filed:
            raise LeftOutError

    def read(self, done: int, of: int) -> None:
        """Tell how many records of the file have been read. Raises LeftOutError."""
        self.tell(f"counting calls, {done / 1e6:.1f} of {of / 1e6:.1f} million records read", True)
