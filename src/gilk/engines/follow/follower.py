# SPDX-License-Identifier: LGPL-2.1-or-later
"""The follower that has the session of a process for itself: its functions are units of its own ledger."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from gilk.analysis.model import Function
from gilk.engines.follow.base import BaseFollower
from gilk.engines.follow.means import Activated, Keys, Outcome
from gilk.errors import TargetError
from gilk.session.entry import Entry
from gilk.session.placed import ReadyTiming, place_timing
from gilk.session.plan_workers import timing_templates
from gilk.session.request import Wanted
from gilk.session.session import InForce, Session
from gilk.session.staging import ChangeResult, Timed
from gilk.splice.instrument import CallOfGate
from gilk.splice.plan import Want
from gilk.splice.points import Point
from gilk.splice.template import PlanTemplate
from gilk.splice.template_build import Progress
from gilk.targets.base import Loaded, Target
from gilk.trace.clock import Clock
from gilk.trace.probes import ProbeRow

_FIRST_GATE = 1 << 41  # keys of gates begin here; those of probes and of signal handlers are lower


class Follower(BaseFollower, Session):
    """A Session that can follow."""

    def __init__(
        self, process: Target, threads: int = 1024, ring: int = 16 << 20, clock: Clock | None = None
    ) -> None:  # fmt: skip
        super().__init__(process, 1, threads, ring, clock)
        self._prepare_to_follow(self._workspace.data)
        self._gate_key = _FIRST_GATE
        self._ranks: dict[int, int] = {}  # by key of a gate: -1: before other probes at its point, 1: after them

    def _templates(self, images: Sequence[Loaded], told: Progress) -> dict[Path, PlanTemplate]:
        return timing_templates(self.process, images, self._workspace.shape, told)

    def _place(self, loaded: Loaded, template: PlanTemplate, starts: set[int]) -> tuple[ReadyTiming | None, set[int]]:
        made = place_timing(self._workspace, loaded, template, len(self._everything), starts)
        if made is None:
            return None, starts
        self._ledger.hold(made)
        return made, starts & made.cramped

    def _put_dormant(self, wanted: Sequence[Wanted], rows: Sequence[ProbeRow]) -> Outcome:
        wants = [self._want(row.iid - 1, one) for row, one in zip(rows, wanted, strict=True)]
        result = self._ledger.add(wants, active=False)
        tactics = {key: tactic for plan in result.plans for key, tactic in plan.tactics.items()}
        return tactics, {key: str(why) for key, why in result.refusals.items()}

    def _copy(self, keys: Keys) -> int:
        return self.process.copy_code(self._ledger.units(keys))

    def _expect(self, keys: Keys, busy: Keys) -> None:
        self.process.keeper.expect(self._ledger.expect(keys), self._ledger.units(busy))

    @property
    def expects(self) -> bool:
        return super().expects and self._ledger.expects

    def _start(self) -> Activated:
        return Activated(self._ledger.begin(self.process.keeper.begin))

    def _activate(self, keys: Keys) -> Activated:
        return Activated(self._ledger.activate(keys).outcome)

    def _deactivate(self, keys: Keys) -> Timed:
        return self._ledger.deactivate(keys).outcome

    def _forget_image(self, loaded: Loaded, number: int) -> None:
        self._ledger.lose(number)

    # Functions that have gates or the like.

    def _put(self, wants: list[tuple[Entry, Want]]) -> ChangeResult:
        """Add wants for gates or handlers; followed functions that have them are always active from then on."""
        numbers = self._functions_of(key for entry, _ in wants for key in entry.wants)
        result = self._ledger.add(wants, along=self._keys_of(numbers), rank=lambda key: self._ranks.get(key, 0))
        self._carried |= numbers
        return result

    def _put_gate(
        self, loaded: Loaded, places: Sequence[tuple[Function, Point]], gate: int, first: bool
    ) -> tuple[set[int], list[str]]:
        ground = self._workspace.ground(loaded, self.process.analysis(loaded))
        instrument = CallOfGate(self._workspace.runtime_address(ground, "gilk_gate_reached"), gate, False)
        wants = []
        for part, point in places:
            self._gate_key += 1
            self._ranks[self._gate_key] = -1 if first else 1
            want = Want(point.address, point.after, instrument, self._gate_key)
            wants.append((self._ledger.entry(ground, part), want))
        result = self._add(wants)
        self._note(result.outcome, 0)
        return set(), [str(why) for key, why in result.refusals.items() if key >= _FIRST_GATE]

    def _look_after(self) -> None:
        """Put instruments at new signal handlers; unlike a Session, also before there are probes."""
        with contextlib.suppress(TargetError):
            wants = self._handlers() if not self.closed else []
            if wants:
                self._add(wants)

    def _in_force(self) -> InForce:
        """The batches with their dormant units as well, since these come and go all the time."""
        return self._ledger.held
