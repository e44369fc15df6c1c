# SPDX-License-Identifier: LGPL-2.1-or-later
"""The base class of tactics, which are ways to lead control from the code to a patch, and what they decide with.

To add a tactic, write a file here with a class of its own, and a row of the table (table.py) that says when it is
tried. In the kernel it also needs a kind of unit, which the driver must know.
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

        A stretch is the rows ``low`` to ``high`` of the kernel's instructions, among them the row ``wanted``, which
        must run in the patch; ``room`` is the first address behind it that must not be overwritten. ``returns``: it
        ends with a call that returns. ``traced``: it is a function's entry, at which ftrace has a call. ``lenders``:
        the first round gave it a splice that may lend bytes.
        """

        low: Rows
        high: Rows
        wanted: Rows
        room: Addresses
        returns: Flags
        traced: Flags
        lenders: Flags

        def single_call(self, size: int) -> Flags:
            """Whether each stretch is one call of ``size`` bytes and nothing else."""

        def start(self, which: Rows, size: int) -> Rows:
            """The row at which ``size`` bytes would be overwritten in each of the stretches ``which``: as near before
            ``wanted`` as they fit, else the first row.
            """

        def fits(self, which: Rows, start: Rows, size: int) -> Flags:
            """Whether ``size`` bytes may be overwritten from the row ``start`` on, in each of the stretches
            ``which``.
            """

        def covering(self, start: Rows, size: int) -> Rows:
            """The row that holds the last of the ``size`` bytes from each row of ``start``."""

        def lands(self, which: Rows, start: Rows, back: int, ahead: int) -> Flags:
            """Whether each of the stretches ``which`` has room for a jump between ``back`` bytes before the row
            ``start`` and ``ahead`` bytes behind it.
            """


class Effort(IntEnum):
    """The price that may be paid to have a segment spliced, in ascending order."""

    CHEAP = auto()  # no call is moved into a patch: each of its returns would be mispredicted
    USUAL = auto()
    SHARE = auto()  # the jump of a bounce may share bytes with what follows
    MOVE_CALLS = auto()  # calls that are in no splice's way are moved, too, to make room
    TAKE = auto()  # padding that another function's end may need, or a trampoline far away, is used


class Round(IntEnum):
    """The rounds through the segments that have no splice yet, in their order."""

    FREEING = auto()  # cheap tactics that displace instructions, since that frees the bytes that bounces need
    EACH = auto()  # the best tactic for each segment by itself
    RESCUE = auto()  # segments that need no splice of their own if others have one
    INSIST = auto()  # tactics whose price other functions may have to pay
    LAST = auto()  # tactics that make each hit expensive
    ENTRY = auto()  # in the kernel, once a function is planned, for an entry that has nothing better than the last


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table of tactics: in ``round``, ``tactic`` is tried with ``effort``."""

    round: Round
    tactic: Tactic
    effort: Effort = Effort.USUAL


@dataclass(slots=True, eq=False)
class Choice:
    """The decision to splice ``segment`` at step ``first``; the steps ``first`` to ``last`` run in the patch.

    ``window`` bytes are overwritten from the start of ``first``. ``bounce`` is the address of the five-byte jump that a
    two-byte one leads to, 0 if there is none; ``landing`` is the number of its bytes that are its own. ``host``: the
    splice that displaces the code there; None if it is padding. ``pun``: the address of the jump that shares bytes with
    the code behind it; 0 if none does.
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
        """The number of bytes of the last jump that are its own, not shared."""
        return self.landing if self.bounce else self.window

    @property
    def moves_call(self) -> bool:
        """Whether a call that returns is moved into the patch."""
        return self.segment.calls and self.last == len(self.segment.steps) - 1

    def release(self, registry: Registry) -> None:
        """Give back the bytes that the choice claims."""
        registry.release(self.start, self.start + self.window)
        if self.bounce:
            registry.release(self.bounce, self.bounce + self.landing)

    def movable(self, calls: bool) -> int:
        """The number of steps of the segment that the patch may take over: none that cannot be moved, and a call that
        returns only if ``calls``.
        """
        segment = self.segment
        return min(len(segment.steps) - (segment.calls and not calls), segment.fast)


class Lead(NamedTuple):
    """The way to a patch: those fields of a Splice that say how it is reached.

    ``ways``: link-time addresses on the way; a thread at one of them is in the same state as at the splice's start.
    """

    window: Site
    bounce: Site | None = None
    shared: tuple[int, int] | None = None
    trampolines: tuple[int, ...] = ()
    ways: tuple[int, ...] = ()


class Choices:
    """The decisions for the segments of one function; their bytes are claimed.

    ``failed``: the number of times that no displacement fitted a pun, by the pun's address.
    """

    def __init__(self, layout: FunctionLayout, failed: Counter[int], rounds: tuple[tuple[Row, ...], ...]) -> None:
        self.layout = layout
        self.registry = layout.registry
        self.failed = failed
        self.rounds = rounds
        self.made: dict[int, Choice] = {}  # by the segment's start

    def splice(self, segment: Segment, rows: Iterable[Row]) -> bool:
        """Splice a segment by the first of the rows that finds a way; False if none does."""
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
        """Splice a segment in which nothing is wanted, so that its end runs in a patch; None if no cheap tactic can."""
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
        """Undo splice_end()."""
        del self.made[choice.segment.start]
        choice.release(self.registry)

    def window(self, segment: Segment, tactic: Tactic, first: int, last: int, size: int) -> Choice | None:
        """A choice that overwrites ``size`` bytes from the step ``first`` on; None if that is not possible."""
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
    """A way to lead control to patches. ``name`` is shown to people and stands in plans. ``number`` stands in stored
    plans, and gives the order in which tactics are shown.

    ``linked``: a jump in another patch to the block may go straight to this tactic's patch. ``lends``: if a plan may
    only lend the bytes of one window (Policy.max_borrow), splices of this tactic may lend some. ``bounces``: its
    splices have a second site.
    """

    name: ClassVar[str]
    number: ClassVar[int]
    linked: ClassVar[bool] = True
    lends: ClassVar[bool] = False
    bounces: ClassVar[bool] = False

    def allowed(self, policy: Policy, effort: Effort) -> bool:
        """Whether this tactic may be tried under ``policy`` with ``effort``."""
        return True

    def propose(self, choices: Choices, segment: Segment, first: int, last: int, effort: Effort) -> Choice | None:
        """A choice by which the steps from ``first`` to ``last`` run in a patch; None if the tactic has none.

        The caller takes the choice; other choices that it depends on have been taken.
        """
        return None

    def code(self, choice: Choice, image: Image, bias: int, host: Host) -> PatchCode:
        """The patch of a choice, the steps of which are known to be relocatable."""
        return emit_patch(choice.segment, choice.first, choice.last, image, bias, host)

    def lead(self, choice: Choice, patch: int, context: PatchContext) -> Lead:
        """The way in which the patch at address ``patch`` is reached, as far as it is known before puns are placed."""
        return Lead(Site(choice.start + context.bias, b"", b""))

    def units(self, splice: Splice, windows: Windows) -> Iterator[Unit]:
        """The units by which the kernel's driver applies a splice of this tactic."""
        return iter(())

    def among(self, stretches: Stretches, which: Rows, effort: Effort) -> Flags:
        """The same as ``propose`` for many at once: whether the tactic would splice each of the stretches ``which``.

        False where that depends on other stretches; a tactic without this method has False for all.
        """
        return np.zeros(len(which), np.bool_)
