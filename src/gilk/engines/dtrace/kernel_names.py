# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names for addresses of the kernel, as far as it tells: /proc/kallsyms has no addresses for those who may not know."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from pathlib import Path

from gilk.engines.dtrace.symbols import Named
from gilk.errors import ImageError

_KERNEL = "vmlinux"  # what DTrace calls what is no module's
_FARTHEST = 1 << 20  # bytes: no function is that long, so what is farther behind its start is something else


class KernelNames:
    """Read when the first one is asked for."""

    def name(self, address: int) -> Named:
        rows = self._rows
        at = bisect_right(rows, address, key=lambda row: row[0]) - 1
        if at < 0 or address - rows[at][0] >= _FARTHEST:
            return Named(address)
        start, name, owner = rows[at]
        return Named(address, owner or _KERNEL, name, address - start)

    @cached_property
    def _rows(self) -> list[tuple[int, str, str]]:
        """(address, name, module), ascending; none when they are hidden."""
        from gilk.image.kernel import kallsyms  # here: it takes long to import, and few programs ask

        try:
            found = kallsyms.parse(Path("/proc/kallsyms").read_bytes())
        except (OSError, ImageError):
            return []
        return sorted((address, name, owner) for address, _, name, owner in found.text())
