# SPDX-License-Identifier: LGPL-2.1-or-later
"""The changes of a process that a follower asks for: a client asks a broker for them, others make them themselves."""

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
#: By key: the tactics of the probes that are had, and why others are refused.
Outcome = tuple[Mapping[int, str], Mapping[int, str]]


@dataclass(frozen=True)
class Activated:
    """How long it took, and the keys of probes that could not be had after all: nothing of their functions is in
    force."""

    took: Timed
    lost: frozenset[int] = frozenset()


class FollowingMeans(ABC):
    """Keys are those of probes, each of one session."""

    @abstractmethod
    def _templates(self, images: Sequence[Loaded], told: Progress) -> dict[Path, PlanTemplate]:
        """The timing of all functions of each image, by its path; without those for which there can be none."""

    @abstractmethod
    def _place(self, loaded: Loaded, template: PlanTemplate, starts: set[int]) -> tuple[ReadyTiming | None, set[int]]:
        """Have those functions of an image dormant that are in its template; and the starts of those that are left."""

    @abstractmethod
    def _put_dormant(self, wanted: Sequence[Wanted], rows: Sequence[ProbeRow]) -> Outcome:
        """Have probes dormant that are planned one by one. Raises GilkError."""

    @abstractmethod
    def _copy(self, keys: Keys) -> int:
        """Have copies of the code ready in which these are in force; how many."""

    @abstractmethod
    def _expect(self, keys: Keys, busy: Keys) -> None:
        """``_start`` is to activate these; ``busy``: those of functions that are called often."""

    @abstractmethod
    def _start(self) -> Activated:
        """Raises TargetError; then nothing has changed."""

    @abstractmethod
    def _activate(self, keys: Keys) -> Activated:
        """Raises TargetError; then nothing has changed."""

    @abstractmethod
    def _deactivate(self, keys: Keys) -> Timed:
        """Raises TargetError; then nothing has changed."""

    @abstractmethod
    def _forget_image(self, loaded: Loaded, number: int) -> None:
        """It has been unmapped. ``number``: of its batch."""

    @abstractmethod
    def _put_gate(
        self, loaded: Loaded, places: Sequence[tuple[Function, Point]], gate: int, first: bool
    ) -> tuple[set[int], list[str]]:
        """Put a gate at points of a function. ``first``: it is met before what is recorded there. The functions that
        are in force from now on because it is, and why the gate is refused."""
