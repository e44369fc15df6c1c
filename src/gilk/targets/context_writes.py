# SPDX-License-Identifier: LGPL-2.1-or-later
"""Words that are written into signal frames while the threads stand still."""

from __future__ import annotations

from gilk.values import dataclass


@dataclass(frozen=True)
class Write:
    """A write in a signal frame or beside it: ``data`` at the address ``slot``, where ``before`` was. ``leaves``: the
    context goes on elsewhere by it, so it may be written only while the code has no patches; otherwise the context
    stays where it is, and the write is right at any time."""

    slot: int
    data: bytes
    before: bytes
    leaves: bool

    def undone(self) -> Write:
        return Write(self.slot, self.before, self.data, self.leaves)


def of_word(slot: int, word: int, before: int, leaves: bool) -> Write:
    return Write(slot, word.to_bytes(8, "little"), before.to_bytes(8, "little"), leaves)
