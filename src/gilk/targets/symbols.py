# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds symbols of the target for instruments that use them."""

from __future__ import annotations

from gilk.image.model import SymbolKind
from gilk.targets.base import Target
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Found:
    """The run-time address of a symbol, and whether the symbol is a function's."""

    address: int
    function: bool


class Resolver:
    """Looks a name up as the dynamic linker would: main program first, then libraries; local symbols come last."""

    def __init__(self, process: Target) -> None:
        self._process = process
        self._known: dict[str, Found | None] = {}

    def find(self, name: str) -> Found | None:
        if name not in self._known:
            self._known[name] = self._search(name, local=False) or self._search(name, local=True)
        return self._known[name]

    def find_exported(self, name: str) -> Found | None:
        """The symbol of a name that is normally a library's: exported functions are looked at first, then find()
        searches."""
        for loaded in self._process.loaded():
            symbol = self._process.exported(loaded.path, name)
            if symbol is not None and symbol.kind == SymbolKind.FUNC:
                return Found(symbol.address + loaded.bias, True)
        return self.find(name)

    def _search(self, name: str, local: bool) -> Found | None:
        for loaded in self._process.loaded():
            for symbol in self._process.image(loaded.path).symbols:
                if symbol.name.partition("@")[0] == name and symbol.local == local and symbol.address:
                    if symbol.kind == SymbolKind.IFUNC:
                        continue
                    return Found(symbol.address + loaded.bias, symbol.kind == SymbolKind.FUNC)
        return None
