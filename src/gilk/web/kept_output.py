# SPDX-License-Identifier: LGPL-2.1-or-later
"""The end of what a program prints, as text."""

from __future__ import annotations

import codecs
from typing import Any, Final

Json = dict[str, Any]
_KEPT: Final = 16 << 10  # the number of the last letters that are shown


class KeptOutput:
    """``letters``: how many letters there have been, so that a reader can tell which of those that are kept are new."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._kept, self.bytes, self.letters = "", 0, 0

    def take(self, part: bytes) -> None:
        text = self._decoder.decode(part)
        self.bytes += len(part)
        self.letters += len(text)
        self._kept = (self._kept + text)[-_KEPT:]

    def to_json(self) -> Json:
        return {"printed": self._kept, "bytes": self.bytes, "letters": self.letters}
