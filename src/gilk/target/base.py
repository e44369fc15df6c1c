# SPDX-License-Identifier: LGPL-2.1-or-later
"""What every target has: images at places, and an analysis of each."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from gilk.analysis.analysis import Analysis
from gilk.image.model import Image
from gilk.splice.points import Spec
from gilk.values import dataclass

_MAIN = ("a.out", "-")


@dataclass(frozen=True)
class Loaded:
    """An image where the loader put it: run-time address = link-time address + ``bias``."""

    path: Path
    bias: int
    start: int
    end: int
    main: bool

    @property
    def name(self) -> str:
        return self.path.name

    def is_meant(self, module: str) -> bool:
        """As D names images: ``libc`` also means libc.so.6, ``a.out`` the program itself, and nothing all of them."""
        if not module or (self.main and module in _MAIN):
            return True
        return Spec(module, "*", "entry").matches_image(self.name, self.main)


class Code(Protocol):
    """A process, or the kernel, as far as points are looked up in it."""

    @property
    def who(self) -> str:
        """For messages: ``process 4711``."""
        ...

    def loaded(self) -> tuple[Loaded, ...]: ...

    def image(self, path: Path) -> Image: ...

    def analysis(self, loaded: Loaded) -> Analysis: ...
