# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names for addresses of a process, also once it has ended: its images are noted while it is there."""

from __future__ import annotations

from dataclasses import dataclass

from gilk.errors import GilkError
from gilk.target.base import Loaded
from gilk.target.process import Process


@dataclass(frozen=True, slots=True)
class Named:
    """``function`` is empty where nothing has a name, ``module`` where nothing is known of the address at all."""

    address: int
    module: str = ""
    function: str = ""
    offset: int = 0


class Symbols:
    def __init__(self, process: Process | None) -> None:
        self._process = process
        self._loaded: tuple[Loaded, ...] = ()
        self.look()

    def look(self) -> None:
        """Note what is mapped now; nothing that was is forgotten."""
        if self._process is None:
            return
        known = set(self._loaded)
        self._loaded += tuple(loaded for loaded in self._process.loaded() if loaded not in known)

    def name(self, address: int) -> Named:
        for loaded in reversed(self._loaded):
            if loaded.start <= address < loaded.end:
                return self._in(loaded, address)
        return Named(address)

    def _in(self, loaded: Loaded, address: int) -> Named:
        assert self._process is not None
        try:
            span = self._process.image(loaded.path).span_at(address - loaded.bias)
        except GilkError:
            span = None
        if span is None:
            return Named(address, loaded.name, "", address - loaded.bias)
        return Named(address, loaded.name, span.name, address - loaded.bias - span.start)
