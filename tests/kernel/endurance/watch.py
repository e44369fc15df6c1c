# SPDX-License-Identifier: LGPL-2.1-or-later
"""Check that a kernel is unharmed: its text, its taint, and the silence of its log."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from tests.kernel.driver.driving import Guest

OUT_OF_TREE, UNSIGNED, LIVEPATCH = 1 << 12, 1 << 13, 1 << 15  # Documentation/admin-guide/tainted-kernels.rst
TAINT = OUT_OF_TREE | UNSIGNED
#: The kernel's own lists of places that it rewrites while it runs: rows of so many bytes, which begin with a relative
#: address.
REWRITTEN = (
    ("__start___jump_table", "__stop___jump_table", 16),
    ("__start_static_call_sites", "__stop_static_call_sites", 8),
)
LONGEST = 6  # bytes that are rewritten at a place


class Watch:
    """Compares the core text with that of the machine when it had just started."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._theirs = {at + i for at in _rewritten(guest) for i in range(LONGEST)}

    def changed(self) -> list[str]:
        """The places of core text that have changed, except those that the kernel itself rewrites."""
        return [hex(at) for at in self._guest.changed() if at not in self._theirs]

    def taint(self) -> int:
        return int(self._guest.link.read_file("/proc/sys/kernel/tainted"))

    @contextmanager
    def unharmed(self, taint: int = TAINT) -> Iterator[None]:
        """Assert after the block that nothing is left: no splice, no complaint, and no taint beyond the driver's
        own."""
        yield
        assert self.changed() == []
        assert self._guest.complaints() == ""
        assert self.taint() | LIVEPATCH == taint | LIVEPATCH


def _rewritten(guest: Guest) -> Iterator[int]:
    for start, stop, row in REWRITTEN:
        begin = guest.symbols[start]
        raw = guest.text(begin, guest.symbols[stop] - begin)
        for offset in range(0, len(raw), row):
            yield begin + offset + struct.unpack_from("<i", raw, offset)[0]
