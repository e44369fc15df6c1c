# SPDX-License-Identifier: LGPL-2.1-or-later
"""The result of a scan: functions, blocks and points, and how each point can be spliced, as compact arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gilk.analysis.model import Function
from gilk.splice.plan import Refusal
from gilk.splice.tactics.table import NAMES, OUTCOMES
from gilk.values import dataclass

PRE, POST = 0, 1
ABOUT: Final = 4  # the number of columns of SurveyTable.about: address, size, blocks, unresolved
_ADDRESSES: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """The figures of one function. ``address`` is link-time, ``size`` in bytes; ``unresolved`` is the number of its
    indirect jumps whose targets are not known.

    ``pre`` and ``post`` have the number of points for each tactic and each refusal that occurs.
    """

    image: str
    name: str
    address: int
    size: int
    blocks: int
    unresolved: int
    pre: dict[str, int]
    post: dict[str, int]


@dataclass(frozen=True, slots=True)
class SurveyTable:
    """The figures of many functions. ``about`` has a row for each function (address, size, blocks, unresolved);
    ``counts`` has the number of points by function, side (PRE, POST) and outcome.

    Addresses in the upper half, those of a kernel, are kept as negative numbers.
    """

    names: NDArray[np.uint8]
    about: NDArray[np.int64]
    counts: NDArray[np.int32]

    @classmethod
    def of(cls, functions: Sequence[Function], pre: NDArray[np.int32], post: NDArray[np.int32]) -> SurveyTable:
        names = "\0".join(function.name for function in functions).encode()
        about = [(_signed(f.start), f.end - f.start, len(f.blocks), len(f.indirect)) for f in functions]
        return cls(
            np.frombuffer(names, np.uint8),
            np.array(about, np.int64).reshape(len(functions), ABOUT),
            np.stack((pre, post), axis=1),
        )

    def __len__(self) -> int:
        return len(self.about)

    def split(self, whose: NDArray[np.int64], shares: int) -> list[SurveyTable]:
        """The rows of each share as a table; ``whose`` has for each row the number of its share."""
        names = self.names.tobytes().split(b"\0")
        chosen = [np.flatnonzero(whose == share) for share in range(shares)]
        joined = [np.frombuffer(b"\0".join([names[row] for row in rows.tolist()]), np.uint8) for rows in chosen]
        return [
            SurveyTable(text, self.about[rows], self.counts[rows]) for text, rows in zip(joined, chosen, strict=True)
        ]

    @property
    def blocks(self) -> int:
        return int(self.about[:, 2].sum())

    @property
    def unresolved(self) -> int:
        """The number of functions with an indirect jump whose targets are not known."""
        return int(np.count_nonzero(self.about[:, 3]))

    def totals(self, side: int) -> dict[str, int]:
        """The number of points on one side, by outcome; outcomes that do not occur have 0."""
        return dict(zip(OUTCOMES, map(int, self.counts[:, side].sum(axis=0)), strict=True))

    @property
    def functions(self) -> list[str]:
        """The names of the functions, in the order of the rows."""
        return self.names.tobytes().decode(errors="replace").split("\0")[: len(self.about)]

    def rows(self, image: str) -> Iterator[FunctionRow]:
        for name, about, counts in zip(self.functions, self.about.tolist(), self.counts, strict=False):
            address, size, blocks, unresolved = about
            pre, post = _present(counts[PRE]), _present(counts[POST])
            yield FunctionRow(image, name, address % _ADDRESSES, size, blocks, unresolved, pre, post)


def _signed(address: int) -> int:
    return address - _ADDRESSES if address >= _ADDRESSES >> 1 else address


def _present(counts: NDArray[np.int32]) -> dict[str, int]:
    return {OUTCOMES[i]: int(counts[i]) for i in np.flatnonzero(counts)}


@dataclass(frozen=True, slots=True)
class SurveyPart:
    """The figures of one image of a survey. ``bias`` is what the loader added to its addresses, 0 for a file."""

    image: str
    path: Path
    build_id: str
    bias: int
    table: SurveyTable


@dataclass(frozen=True)
class Survey:
    """The figures of a scan.

    ``seconds`` is how long the scan took; ``cached``: the figures are those of an earlier scan. Pre- and post-points
    are planned separately: the figures of a side say what happens if all points of that side are wanted, and no other.
    """

    parts: tuple[SurveyPart, ...]
    seconds: float
    cached: bool

    def __repr__(self) -> str:
        return f"<Survey of {self.image}: {self.functions} functions, {self.blocks} blocks>"

    @property
    def image(self) -> str:
        return ", ".join(part.image for part in self.parts)

    @property
    def functions(self) -> int:
        return sum(len(part.table) for part in self.parts)

    @property
    def blocks(self) -> int:
        return sum(part.table.blocks for part in self.parts)

    @property
    def unresolved(self) -> int:
        """The number of functions with an indirect jump whose targets are not known."""
        return sum(part.table.unresolved for part in self.parts)

    @cached_property
    def pre(self) -> dict[str, int]:
        """The number of points before blocks, by tactic or refusal."""
        return self._totals(PRE)

    @cached_property
    def post(self) -> dict[str, int]:
        """The number of points after blocks, by tactic or refusal."""
        return self._totals(POST)

    @property
    def refusals(self) -> dict[str, int]:
        """The number of points of both sides that have no tactic, by reason; only reasons that occur."""
        both = {str(reason): self.pre[reason] + self.post[reason] for reason in Refusal}
        return {reason: count for reason, count in both.items() if count}

    def rows(self) -> Iterator[FunctionRow]:
        for part in self.parts:
            yield from part.table.rows(part.image)

    def _totals(self, side: int) -> dict[str, int]:
        totals = [part.table.totals(side) for part in self.parts]
        return {outcome: sum(each[outcome] for each in totals) for outcome in OUTCOMES}


def spliced(counts: dict[str, int]) -> int:
    """The number of points that have a tactic."""
    return sum(counts.get(tactic, 0) for tactic in NAMES)


def refused(counts: dict[str, int]) -> int:
    """The number of points that have no tactic."""
    return sum(counts.get(reason, 0) for reason in Refusal)
