# SPDX-License-Identifier: LGPL-2.1-or-later
"""The compiler's view of the processes that a program about a kernel traces: the types in their debug information."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gilk.engines.dtrace.world import SymbolContext
from gilk.image.model import Image
from gilk.lang.d.probes import described
from gilk.lang.types import Record, Type
from gilk.targets.base import Loaded
from gilk.targets.kernel.users import UserFile, UserProcesses
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.engines.dtrace.image_debug import ImageDebug

_PID = re.compile(r"pid([0-9]{1,10})\Z")


@dataclass
class _Traced:
    """Processes that descriptions name by one number (world.HasImages)."""

    users: UserProcesses
    pid: int
    pids: tuple[int, ...]

    def loaded(self) -> Sequence[Loaded]:
        return [file.loaded for file in self.users.files(self.pids)]

    def image(self, path: Path) -> Image:
        return self.users.image(self._files[path])

    def debug(self, loaded: Loaded) -> ImageDebug | None:
        from gilk.engines.dtrace.image_debug import ImageDebug  # imported here: few programs need it

        found = self.users.debug(self._files[loaded.path])
        return None if found is None else ImageDebug(loaded.path, found)

    @cached_property
    def _files(self) -> dict[Path, UserFile]:
        return {file.loaded.path: file for file in self.users.files(self.pids)}


@dataclass
class UserWorld:
    """The types of all processes that are traced, or that descriptions name. Types of variables are not among them."""

    users: UserProcesses
    _worlds: dict[str, SymbolContext] = field(default_factory=dict)

    def type(self, module: str, kind: str, name: str) -> Type | None:
        numbers = [number for number, _ in self.users.meant("*")]
        found = (self._of(number).type(module, kind, name) for number in numbers)
        return next((each for each in found if each is not None), None)

    def module(self, name: str) -> bool:
        return any(self._of(number).module(name) for number, _ in self.users.meant("*"))

    def has(self, record: Record) -> bool:
        """Whether the struct comes from a process."""
        return record.origin.startswith("/")

    def completed(self, record: Record) -> Record:
        found = (each.completed(record) for each in self._worlds.values())
        return next((each for each in found if each.complete), record)

    def arguments(self, probe: str) -> tuple[tuple[Type, int | None], ...] | None:
        named = _PID.match(described(probe).provider)
        return self._of(named[1]).arguments(probe) if named is not None else None

    def foreign(self, probe: str) -> str:
        named = _PID.match(described(probe).provider)
        return self._of(named[1]).foreign(probe) if named is not None else ""

    def _of(self, number: str) -> SymbolContext:
        if number not in self._worlds:
            pids = dict(self.users.meant(f"pid{number}")).get(number, ())
            traced = _Traced(self.users, int(number), pids)
            self._worlds[number] = SymbolContext(traced, read_debug=traced.debug)
        return self._worlds[number]
