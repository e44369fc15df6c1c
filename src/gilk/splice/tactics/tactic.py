# SPDX-License-Identifier: LGPL-2.1-or-later
"""A tactic, and what it decides with: a way to lead control from the code to a patch.

To add one: a file here with a class of its own, and a row of the table (table.py) that says when it is tried. In the
kernel it also needs a kind of unit, which the driver must know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import IntEnum, auto
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from gilk.arch.asm import JUMP_SIZE
from gilk.image.model import Image
from gilk.splice.byte_registry import Registry
from gilk.splice.code import PatchCode
from gilk.splice.emit import emit_patch
from gilk.splice.function_layout import FunctionLayout
from gilk.splice.host import Host
from gilk.splice.kernel_unit import Unit, Windows
from gilk.splice.patch_context import PatchContext
from gilk.splice.plan import Site, Splice
from gilk.splice.policy import Policy
from gilk.splice.segments import Segment
from gilk.values import dataclass

if TYPE_CHECKING:
    from typing import Protocol

    from numpy.typing import NDArray

    Rows = NDArray[np.int64]
    Flags = NDArray[np.bool_]
    Addresses = NDArray[np.uint64]

    class Stretches(Protocol):
        """The questions that Choices answers, for all points of one side of a kernel at once (kernel/stretches.py).

        A stretch is rows ``low`` to ``high`` of the kernel's instructions, of which ``wanted`` must run in the patch;
        ``room`` is the first address behind it that must be left alone. ``returns``: it ends with a call that returns.
        ``traced``: it is a function's entry, at which ftrace has a call. ``lenders``: to these the first round gave a
        splice that may lend bytes.
        """

        low: Rows
        high: Rows
        wanted: Rows
        room: Addresses
        returns: Flags
        traced: Flags
        lenders: Flags

        def single_call(self, size: int) -> Flags:
            """For each stretch, whether it is one call of ``size`` bytes and nothing else."""

        def start(self, which: Rows, size: int) -> Rows:
            """Where so many bytes would be overwritten: as near before ``wanted`` as they fit, else at the start."""

        def fits(self, which: Rows, start: Rows, size: int) -> Flags:
            """Whether so many bytes may be overwritten from there."""

        def covering(self, start: Rows, size: int) -> Rows:
            """The row that has the last of so many bytes."""

        def lands(self, which: Rows, start: Rows, back: int, ahead: int) -> Flags:
            """Whether there is room for a jump from ``back`` bytes before the row ``start`` to ``ahead`` behind it."""


class Effort(IntEnum):
    """The price that may be paid to have a segment spliced."""

    CHEAP = auto()  # no call is moved into a patch: each of its returns would be mispredicted
    USUAL = auto()
    SHARE = auto()  # the jump of a bounce may share bytes with what follows
    MOVE_CALLS = auto()  # also calls that are in nobody's way are moved, for room
    TAKE = auto()  # what another function's end may need, or lies far away


class Round(IntEnum):
    """The rounds through the segments that have no splice yet, in their order."""

    FREEING = auto()  # all that is cheap, since what it displaces frees the bytes that bounces need
    EACH = auto()  # the best there is for each by itself
    RESCUE = auto()  # what can do without a splice of its own, if others have theirs
    INSIST = auto()  # what others may have to pay for
    LAST = auto()  # what each hit pays for
    ENTRY = auto()  # the kernel's, once a function is planned, for an entry that has nothing better than the last


@dataclass(frozen=True, slots=True)
class Row:
    """One of the table of tactics: in ``round``, a tactic is tried with that effort."""

    round: Round
    tactic: Tactic
    effort: Effort = Effort.USUAL


@dataclass(slots=True, eq=False)
class Choice:
    """Splice ``segment`` at step ``first``; steps ``first`` to ``last`` run in the patch.

    ``window`` bytes are overwritten from the start of ``first``; ``bounce`` is where a two-byte jump finds its
    five-byte one, of which ``landing`` bytes are its own. ``host``: the splice that displaces what is there; None: it
    is padding. ``pun``: where a jump of it shares bytes with what follows; 0: nowhere.
    """

    segment: Segment
    tactic: Tactic
    first: int
    last: int
    window: int
    bounce: int = 0
    landing: int = JUMP_SIZE
    host: Choice | None = None
    pun: int = 0

    @property
    def start(self) -> int:
        return self.segment.heads[self.first]

    @property
    def own(self) -> int:
        """How many bytes its last jump has of its own."""
        return self.landing if self.bounce else self.window

    @property
    def moves_call(self) -> bool:
        """Whether a call comes to run in the patch."""
        return self.segment.calls and self.last == len(self.segment.steps) - 1

    def release(self, registry: Registry) -> None:
        """Give back the bytes that it claims."""
        registry.release(self.start, self.start + self.window)
        if self.bounce:
            registry.release(self.bounce, self.bounce + self.landing)

    def movable(self, calls: bool) -> int:
        """How many steps of the segment the patch may take over: nothing that cannot move, and what ``calls`` and
        returns only when asked for."""
        segment = self.segment
        return min(len(segment.steps) - (segment.calls and not calls), segment.fast)


class Lead(NamedTuple):
    """The way to a patch, as a splice has it.

    ``ways``: link-time addresses on the way, at each of which one is as good as at the splice's start.
    """

    window: Site
    bounce: Site | None = None
    shared: tuple[int, int] | None = None
    trampolines: tuple[int, ...] = ()
    ways: tuple[int, ...] = ()


class Choices:
    """The decisions for the segments of one function; claims their bytes.

    ``failed``: how often no displacement fitted, by where the pun was to be.
    """

    def __init__(self, layout: FunctionLayout, failed: Counter[int], rounds: tuple[tuple[Row, ...], ...]) -> None:
        self.layout = layout
        self.registry = layout.registry
        self.failed = failed
        self.rounds = rounds
        self.made: dict[int, Choice] = {}  # by the segment's start

    def splice(self, segment: Segment, rows: Iterable[Row]) -> bool:
        """By the first of the rows that finds a way; False when none does."""
        if segment.start in self.made:
            return True
        first, last = segment.first, segment.last
        for row in rows:
            choice = row.tactic.propose(self, segment, first, last, row.effort)
            if choice:
                self.take(choice)
                return True
        return False

    def splice_end(self, segment: Segment) -> Choice | None:
        """Splice a segment nobody asked for, so that its end runs in a patch; None when it cannot be had cheaply."""
        last = len(segment.steps) - 1
        cheap = (row for rows in self.rounds for row in rows if row.effort is Effort.CHEAP)
        for row in cheap:
            choice = row.tactic.propose(self, segment, last, last, row.effort)
            if choice:
                self.take(choice)
                return choice
        return None

    def take(self, choice: Choice) -> None:
        self.made[choice.segment.start] = choice
        if choice.window:
            start = choice.start
            self.registry.claim(start, start + choice.window)

    def drop(self, choice: Choice) -> None:
        """Undo ``splice_end``."""
        del self.made[choice.segment.start]
        choice.release(self.registry)

    def window(self, segment: Segment, tactic: Tactic, first: int, last: int, size: int) -> Choice | None:
        """A choice that overwrites ``size`` bytes, if that is possible."""
        start = segment.heads[first]
        end = start + size
        last = max(segment.covering(end), last)
        if last >= segment.fast or not self.writable(start, end):
            return None
        layout = self.layout
        if layout.entered_between(start + 1, end):
            return None
        if layout.strict and segment.heads[first + 1] < min(end, segment.end):
            return None
        if layout.reserved and layout.is_reserved(start, segment.heads[last + 1]):
            return None
        return Choice(segment, tactic, first, last, size)

    def writable(self, start: int, end: int) -> bool:
        return self.registry.free(start, end) and not (self.layout.reserved and self.layout.is_reserved(start, end))


class Tactic:
    """``name`` is for plans and people. By ``number`` kept plans know it, and it is its place where all are shown.

    ``linked``: a jump to the block, in another patch, may go straight to this one. ``lends``: where a plan may only
    lend the bytes of one window (Policy.max_borrow), it has some to lend. ``bounces``: it has a second site.
    """

    name: ClassVar[str]
    number: ClassVar[int]
    linked: ClassVar[bool] = True
    lends: ClassVar[bool] = False
    bounces: ClassVar[bool] = False

    def allowed(self, policy: Policy, effort: Effort) -> bool:
        """Whether the target is one for which this may be tried."""
        return True

    def propose(self, choices: Choices, segment: Segment, first: int, last: int, effort: Effort) -> Choice | None:
        """How the steps from ``first`` to ``last`` come to run in a patch; None where that cannot be.

        The choice is for the caller to take; others that it depends on have been taken.
        """
        return None

    def code(self, choice: Choice, image: Image, bias: int, host: Host) -> PatchCode:
        """The patch. The choice's steps are known to be relocatable."""
        return emit_patch(choice.segment, choice.first, choice.last, image, bias, host)

    def lead(self, choice: Choice, patch: int, context: PatchContext) -> Lead:
        """All that can be said at once of how the patch at address ``patch`` is reached; what is a pun follows."""
        return Lead(Site(choice.start + context.bias, b"", b""))

    def units(self, splice: Splice, windows: Windows) -> Iterator[Unit]:
        """How the kernel's driver is told."""
        return iter(())

    def among(self, stretches: Stretches, which: Rows, effort: Effort) -> Flags:
        """The same as ``propose`` for many at once: for each of ``which``, whether the tactic would have it.

        False where that depends on other stretches, as it does everywhere for a tactic without this method.
        """
        return np.zeros(len(which), np.bool_)
