# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names for addresses of the kernel, as far as /proc/kallsyms tells: without privileges it has no addresses."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gilk.engines.dtrace.symbols import Named, name_of_return
from gilk.errors import ImageError

if TYPE_CHECKING:
    from gilk.image.kernel.kallsyms import KernelSymbols
    from gilk.targets.kernel.target import KernelTarget

_KERNEL = "vmlinux"  # DTrace's name for code that is in no module
_FARTHEST = 1 << 20  # bytes: an address that is farther from a function's start is not in the function
_TOP = 1 << 63  # start of the kernel's half of the address space; lower numbers in kallsyms are per-CPU offsets


class KernelNames:
    """The names in the kernel ``target``, or in the one that gilk runs on. Symbols are read when a name is first asked
    for."""

    def __init__(self, target: KernelTarget | None = None) -> None:
        self._target = target

    def frames(self, addresses: Sequence[int]) -> list[Named]:
        """The names of a stack's addresses, the innermost first; all others are return addresses."""
        return [name_of_return(self.name, each) if at else self.name(each) for at, each in enumerate(addresses)]

    def name(self, address: int) -> Named:
        rows = self._rows
        at = bisect_right(rows, address, key=lambda row: row[0]) - 1
        if at < 0 or address - rows[at][0] >= _FARTHEST:
            return Named(address)
        start, name, owner = rows[at]
        return Named(address, owner or _KERNEL, name, address - start)

    @cached_property
    def _rows(self) -> list[tuple[int, str, str]]:
        """(address, name, module) of functions and variables, in ascending order; empty if addresses are hidden."""
        found = self._symbols()
        if found is None:
            return []
        rows = zip(found.addresses.tolist(), found.names, found.owners, strict=True)
        return sorted(row for row in rows if row[0] >= _TOP)

    def _symbols(self) -> KernelSymbols | None:
        if self._target is not None:
            return self._target.kernel.snapshot.symbols
        from gilk.image.kernel import kallsyms  # imported here: it is slow, and few need it

        try:
            return kallsyms.parse(Path("/proc/kallsyms").read_bytes())
        except (OSError, ImageError):
            return None
