# SPDX-License-Identifier: LGPL-2.1-or-later
"""The changes of a process that a follower needs: one implementation asks a broker for them, the other makes them
itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gilk.analysis.model import Function
from gilk.session.placed import ReadyTiming
from gilk.session.request import Wanted
from gilk.session.staging import Timed
from gilk.splice.points import Point
from gilk.splice.template import PlanTemplate
from gilk.splice.template_build import Progress
from gilk.targets.base import Loaded
from gilk.trace.probes import ProbeRow
from gilk.values import dataclass

Keys = NDArray[np.int64]
#: By key: the tactics of probes, and why others are refused.
Outcome = tuple[Mapping[int, str], Mapping[int, str]]


@dataclass(frozen=True)
class Activated:
    """The outcome of an activation: how long it took, and the keys of probes that could not be had after all, whose
    functions are not active."""

    took: Timed
    lost: frozenset[int] = frozenset()


class FollowingMeans(ABC):
    """The changes that a follower needs. Keys are those of the probes of one session."""

    @abstractmethod
    def _templates(self, images: Sequence[Loaded], told: Progress) -> dict[Path, PlanTemplate]:
        """The timing template of each image, by path; an image that cannot have one is missing."""

    @abstractmethod
    def _place(self, loaded: Loaded, template: PlanTemplate, starts: set[int]) -> tuple[ReadyTiming | None, set[int]]:
        """Place the functions of an image that its template has, dormant; returns them, and the starts of those that
        are left."""

    @abstractmethod
    def _put_dormant(self, wanted: Sequence[Wanted], rows: Sequence[ProbeRow]) -> Outcome:
        """Put in probes, planned one by one and dormant; returns their outcome. Raises GilkError."""

    @abstractmethod
    def _copy(self, keys: Keys) -> int:
        """Make copies of the code in which these probes are active; returns how many."""

    @abstractmethod
    def _expect(self, keys: Keys, busy: Keys) -> None:
        """Prepare for ``_start``, which will activate these keys; ``busy``: keys of functions that are called often."""

    @abstractmethod
    def _start(self) -> Activated:
        """Activate the expected probes. Raises TargetError; then nothing has changed."""

    @abstractmethod
    def _activate(self, keys: Keys) -> Activated:
        """Activate these probes. Raises TargetError; then nothing has changed."""

    @abstractmethod
    def _deactivate(self, keys: Keys) -> Timed:
        """Make these probes dormant. Raises TargetError; then nothing has changed."""

    @abstractmethod
    def _forget_image(self, loaded: Loaded, number: int) -> None:
        """Note that an image was unmapped. ``number``: of its batch."""

    @abstractmethod
    def _put_gate(
        self, loaded: Loaded, places: Sequence[tuple[Function, Point]], gate: int, first: bool
    ) -> tuple[set[int], list[str]]:
        """Put a gate at points of a function. ``first``: it comes before the recording there.

        Returns the functions that are always active from now on, because the gate is in them; and the reasons if the
        gate is refused.
        """
