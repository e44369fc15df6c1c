# SPDX-License-Identifier: LGPL-2.1-or-later
"""The instruments of timed calls that go on in other functions of a kernel."""

from __future__ import annotations

from collections.abc import Callable

from gilk.splice.instrument import Instrument
from gilk.splice.kernel.instrument import KernelCallWithRegisters
from gilk.splice.kernel.onward import KernelLooksForNotes, KernelNotesJump, KernelReturnsFromAll
from gilk.splice.onward import LooksForNotes, ReturnsFromAll
from gilk.splice.planner import PatchContext
from gilk.targets.base import Loaded
from gilk.targets.kernel.driver import Driver

_IIDS = 24  # bits of a number below the set of rings


class KernelOnward:
    """Makes them, with the entry points of the driver. ``rings`` tells the set of the session's rings, which are made
    if need be."""

    kinds = frozenset((ReturnsFromAll,))

    def __init__(self, ground: PatchContext, driver: Driver, rings: Callable[[], int]) -> None:
        self._ground, self._driver, self._rings = ground, driver, rings

    def ground_of(self, loaded: Loaded) -> PatchContext:
        return self._ground

    def notes_jump(self, ground: PatchContext, number: int) -> Instrument:
        return KernelNotesJump(self._driver.symbols["ilk_onward_jumps"], self._above | number, self._thunk)

    def looks_for_notes(self, ground: PatchContext, kind: type[LooksForNotes]) -> Instrument:
        return KernelReturnsFromAll(self._driver.symbols["ilk_onward"], self._call("ilk_onward_returns", 0))

    def begins_once(self, ground: PatchContext, number: int, otherwise: Instrument) -> Instrument:
        return KernelLooksForNotes(
            self._driver.symbols["ilk_onward"], self._call("ilk_onward_begins", number), otherwise
        )

    def _call(self, name: str, number: int) -> KernelCallWithRegisters:
        return KernelCallWithRegisters(self._driver.symbols[name], self._above | number, self._thunk)

    @property
    def _above(self) -> int:
        return self._rings() << _IIDS

    @property
    def _thunk(self) -> int:
        return self._driver.symbols["ilk_registers"]
