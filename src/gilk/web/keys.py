# SPDX-License-Identifier: LGPL-2.1-or-later
"""Keys and tokens: a page exchanges a key, good once and for a minute, for a token, which it then sends along."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Final

BYTES: Final = 32  # 256 bits
KEY_LASTS: Final = 60.0  # seconds
_MOST_KEYS: Final = 16  # that are good at one time; an older one is forgotten
_Token = str


class Keys:
    """``acts``: whoever has the token may change something; without it there is a token that can only look."""

    def __init__(self, acts: bool, now: Callable[[], float] = time.monotonic) -> None:
        self.acts, self._now = acts, now
        self._token: _Token = secrets.token_urlsafe(BYTES)
        self._until: dict[str, float] = {}

    def make(self) -> str:
        """A new key."""
        key = secrets.token_urlsafe(BYTES)
        while len(self._until) >= _MOST_KEYS:
            del self._until[next(iter(self._until))]
        self._until[key] = self._now() + KEY_LASTS
        return key

    def exchange(self, key: str) -> _Token | None:
        """The token, if that key is good; it is not any more then."""
        known = next((each for each in self._until if secrets.compare_digest(each.encode(), key.encode())), None)
        until = self._until.pop(known) if known is not None else 0.0
        return self._token if known is not None and self._now() < until else None

    def admits(self, token: str) -> bool:
        return secrets.compare_digest(self._token.encode(), token.encode("utf-8", "replace"))
