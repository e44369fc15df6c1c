# SPDX-License-Identifier: LGPL-2.1-or-later
"""Plans: the changes that splices make, as values that can be printed, counted, compared and refused.

Addresses are those of the running target.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from gilk.splice.code import PatchCode
from gilk.splice.instrument import Instrument, SavesAll
from gilk.values import dataclass


class Refusal(StrEnum):
    """Why a point has no tactic; each has a paragraph in docs/refusals.md."""

    NO_ROOM = "no-room"
    RSEQ = "rseq"
    UNKNOWN_JUMPS = "unknown-jumps"
    PREEMPTED = "preempted"
    FAR_BRANCH = "far-branch"
    TRANSACTION = "transaction"
    CALL_RSP = "call-rsp"
    OVERLAP = "overlap"
    OUT_OF_REACH = "out-of-reach"
    VDSO = "vdso"
    NO_CODE = "no-code"
    EXCEPTION = "exception"
    IN_ANOTHERS_WAY = "in-anothers-way"
    # Refusals for inlined functions: splice/inlined.py.
    INLINED_LOOP = "inlined-loop"
    INLINED_COPIES = "inlined-copies"
    INLINED_ENTRY = "inlined-entry"
    INLINED_CALL = "inlined-call"
    INLINED_PART = "inlined-part"
    INLINED_MORE = "inlined-more"
    INLINED_EXIT = "inlined-exit"
    INLINED_WITHIN = "inlined-within"
    # Refusals for arguments of such functions: image/dwarf/arguments.py.
    ARGUMENT_LOST = "argument-lost"
    ARGUMENT_KIND = "argument-kind"
    RESULT_LOST = "result-lost"
    # Refusals for the kernel: code that image.kernel reserves.
    BLACKLISTED = "blacklisted"
    UNSAFE = "unsafe"
    IDLE = "idle"
    THUNK = "thunk"
    FENTRY = "ftrace"  # not ``fentry``: a point may have the tactic of that name
    STATIC_KEY = "static-key"
    STATIC_CALL = "static-call"
    FAULTS = "faults"
    BUG = "bug"
    PROBED = "probed"
    # Refusals for the kernel: what the driver finds when a plan is applied.
    TAKEN = "taken"
    STALE = "stale"
    LEAVING = "leaving"
    RUN_INTO = "run-into"
    UNREAD = "unread"
    DRIVER = "driver"


@dataclass(frozen=True, slots=True)
class Want:
    """A wish for an instrument: before the instruction at ``address``, or after it if ``after``.

    The address is link-time. ``key`` names the probe to the caller of the planner; the plan refers to the want by it.
    """

    address: int
    after: bool
    instrument: Instrument | None
    key: int


def heeds_live(wants: Iterable[Want]) -> bool:
    """Whether patches with these instruments depend on which registers and flags are live. If not, nobody need compute
    that, which takes longer than all the rest of a plan."""
    return not all(isinstance(want.instrument, SavesAll) for want in wants)


class Site(NamedTuple):
    """Bytes of the target's code that change: ``old`` are the bytes that must be there, ``new`` those that
    are written.
    """

    address: int
    old: bytes
    new: bytes

    @property
    def end(self) -> int:
        return self.address + len(self.new)


class Patch(NamedTuple):
    """Generated code, and its address."""

    address: int
    data: bytes


class Equivalence(NamedTuple):
    """A thread at the address ``patch`` is in the same state as one at ``original``, before or after the instruments
    there.
    """

    patch: int
    original: int
    before: bool


class Splice(NamedTuple):
    """How control is led from the code to the patch at address ``patch``, by the tactic of that name (tactics/).

    ``window`` is the place where control leaves the code; it has no bytes if something else leads to the patch.
    ``displaced``: the addresses of the instructions that run in the patch, and the end of the last of them; ``copy``:
    the address of the first of them in the patch, behind its instruments. ``bounce``: the five-byte jump that a short
    one in the window leads to, in bytes that the splice at ``host`` displaces, or in padding if ``host`` is 0.
    ``shared``: the range of code, from and to, that is a part of the last jump's displacement, and ``trampolines``, the
    places that jump may lead to.
    """

    tactic: str
    patch: int
    window: Site
    displaced: tuple[int, ...] = ()
    copy: int = 0
    bounce: Site | None = None
    host: int = 0
    shared: tuple[int, int] | None = None
    trampolines: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """The end of the original instructions that run in the patch."""
        return self.displaced[-1]

    @property
    def sites(self) -> tuple[Site, ...]:
        """The bytes of code that the splice changes: its window, unless that is empty, and its bounce."""
        written = (self.window,) if self.window.new else ()
        return (*written, self.bounce) if self.bounce else written


@dataclass(frozen=True)
class FunctionPlan:
    """All changes to one function, which are applied and undone together.

    ``tactics``, ``refusals`` and ``patched`` have, by the key of a want, the name of the tactic, the reason why there
    is none, and the address of the patch. ``codes``: the code that the last of the patches were made of, one for each
    splice, if the context keeps code.
    """

    name: str
    splices: tuple[Splice, ...]
    patches: tuple[Patch, ...] = ()
    equivalences: tuple[Equivalence, ...] = ()
    tactics: dict[int, str] = field(default_factory=dict)
    refusals: dict[int, Refusal] = field(default_factory=dict)
    patched: dict[int, int] = field(default_factory=dict)
    codes: tuple[PatchCode, ...] = ()

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """All bytes of code that change."""
        return tuple([site for splice in self.splices for site in splice.sites])

    @property
    def displaced(self) -> Iterator[int]:
        """The original addresses at which no thread may stand once the sites are written."""
        return (at for splice in self.splices for at in splice.displaced[bool(splice.window.new) : -1])

    @cached_property
    def pinned(self) -> tuple[tuple[int, int], ...]:
        """Ranges of code outside of the sites that must not change while the sites are written."""
        return tuple([splice.shared for splice in self.splices if splice.shared])


@dataclass(frozen=True)
class Plan:
    """The changes to the functions of one image, in the order in which they were planned."""

    functions: tuple[FunctionPlan, ...]

    @property
    def tactics(self) -> dict[str, int]:
        return dict(Counter(t for f in self.functions for t in f.tactics.values()))

    @property
    def refusals(self) -> dict[str, int]:
        return dict(Counter(str(r) for f in self.functions for r in f.refusals.values()))
