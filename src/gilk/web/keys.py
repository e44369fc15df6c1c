# SPDX-License-Identifier: LGPL-2.1-or-later
"""Keys and tokens: a page exchanges a key, which is valid once and for a minute, for a token, which it sends with
requests.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Final

BYTES: Final = 32  # 256 bits
KEY_LASTS: Final = 60.0  # in seconds
MOST_KEYS: Final = 16  # the most keys that are valid at one time; older ones are forgotten
_Token = str


class Keys:
    """The keys and the token of a window. ``acts``: clients with the token may change something, not only look.

    Keys are made in another thread, too: the one that answers `gilk web --key`.
    """

    def __init__(self, acts: bool, now: Callable[[], float] = time.monotonic) -> None:
        self.acts, self._now = acts, now
        self._token: _Token = secrets.token_urlsafe(BYTES)
        self._until: dict[str, float] = {}
        self._lock = threading.Lock()

    def make(self) -> str:
        """A new key."""
        key = secrets.token_urlsafe(BYTES)
        with self._lock:
            while len(self._until) >= MOST_KEYS:
                del self._until[next(iter(self._until))]
            self._until[key] = self._now() + KEY_LASTS
        return key

    def exchange(self, key: str) -> _Token | None:
        """The token, if the key is valid, otherwise None; the key is not valid any more afterwards."""
        given = key.encode("utf-8", "replace")
        with self._lock:
            known = next((each for each in self._until if secrets.compare_digest(each.encode(), given)), None)
            until = self._until.pop(known) if known is not None else 0.0
        return self._token if known is not None and self._now() < until else None

    def admits(self, token: str) -> bool:
        return secrets.compare_digest(self._token.encode(), token.encode("utf-8", "replace"))
