# SPDX-License-Identifier: LGPL-2.1-or-later
"""/proc/kallsyms as columns: the names and live addresses of everything in the kernel and its modules."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gilk.errors import ImageError
from gilk.values import dataclass

Addresses = NDArray[np.uint64]

CORE: Final = ""  # the owner of symbols that belong to no module
_TEXT: Final = frozenset("tTwW")  # nm(1): text, and weak


@dataclass(frozen=True)
class KernelSymbols:
    """The symbols, in the order of the file. ``kinds`` are nm's letters; ``owners`` are names of modules, '' for the
    kernel.
    """

    addresses: Addresses
    kinds: tuple[str, ...]
    names: tuple[str, ...]
    owners: tuple[str, ...]

    @cached_property
    def _core(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for address, name, owner in zip(self.addresses.tolist(), self.names, self.owners, strict=True):
            if not owner:
                found.setdefault(name, address)
        return found

    def find(self, name: str) -> int | None:
        """The address of a symbol of the kernel itself; that of the first one if several have the name; None if none
        has.
        """
        return self._core.get(name)

    def of_modules(self, name: str) -> dict[str, int]:
        """The addresses of the symbols with a name that several modules may have, by the module's name."""
        rows = (i for i, known in enumerate(self.names) if known == name and self.owners[i])
        return {self.owners[i]: int(self.addresses[i]) for i in rows}

    def text(self) -> Iterator[tuple[int, str, str, str]]:
        """The symbols that nm calls text, as (address, kind, name, owner)."""
        rows = zip(self.addresses.tolist(), self.kinds, self.names, self.owners, strict=True)
        return (row for row in rows if row[1] in _TEXT)


def parse(data: bytes) -> KernelSymbols:
    """The symbols in the file's content. Raises ImageError `kernel-symbols` if a line is no symbol, or all addresses
    are hidden.
    """
    addresses, kinds, names, owners = [], [], [], []
    try:
        for line in data.decode().splitlines():
            address, kind, name = line.split(None, 2)
            name, _, owner = name.partition("\t")
            addresses.append(int(address, 16))
            kinds.append(kind)
            names.append(name)
            owners.append(owner[1:-1])
        columns = np.array(addresses, np.uint64)
    except (ValueError, OverflowError) as error:
        raise ImageError("kernel-symbols", f"/proc/kallsyms is not as expected: {error}") from None
    if not columns.any():
        raise ImageError(
            "kernel-symbols", "/proc/kallsyms shows no addresses", "be root, and see sysctl kernel.kptr_restrict"
        )
    return KernelSymbols(columns, tuple(kinds), tuple(names), tuple(owners))
