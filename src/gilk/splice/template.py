# SPDX-License-Identifier: LGPL-2.1-or-later
"""The plans of many functions of an image as arrays that do not depend on where anything lies.

Places in code are counted from the image's link-time address 0, those in patches from the start of one *block* that
holds all patches, those of the runtime from the start of the arena; the function that instruments call, if they do, is
a place of its own. An address in a patch or a splice is stored as it would be with all four of these at 0, so that
adding one number to many fields at once corrects them (targets/templates.py).

A *unit* is a function or a part of one; an *owner* is the unit that a part belongs to. A *row* is a probe. A pun's jump
lies outside of the block, at its place beside the image.

A template that has been placed claims its bytes in the registry of a *ground* (a PatchContext), whether it is in force
or not: other plans made there keep away from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gilk.arch.asm import JUMP_SIZE
from gilk.splice.patch_context import PatchContext
from gilk.splice.plan import Refusal
from gilk.splice.tactics.table import NAMES, OUTCOMES
from gilk.values import dataclass

Array = NDArray[Any]
ENTRY, HEAD, RETURN = range(3)  # the place of a row's probe; a head is an entry that the function itself jumps back to
_OF_ROOM: Final = [OUTCOMES.index(why) for why in (Refusal.NO_ROOM, Refusal.OVERLAP, Refusal.UNKNOWN_JUMPS)]
_LONGEST = 15  # the most bytes of a site: a pun's or a call's prefixes fill one instruction at most

_TYPES: Final = {
    **dict.fromkeys(("patch_at", "same_patch"), np.int64),
    **dict.fromkeys(("row_kind", "row_outcome", "site_size", "site_tactic", "site_shared"), np.uint8),
    **dict.fromkeys(("names", "code", "old", "new"), np.uint8),
    **dict.fromkeys(("row_after", "patch_inside", "same_inside", "same_before"), np.bool_),
}
_KINDS: Final = (np.int64, np.int32, np.uint8, np.bool_)
#: Groups of fields that have the same length: one entry for each of the same things.
_GROUPS: Final = (
    ("unit_start", "unit_owner"),
    ("row_unit", "row_kind", "row_block", "row_address", "row_after", "row_outcome"),
    ("patch_at", "patch_size", "patch_inside", "patch_leads", "patch_unit"),
    ("site_at", "site_size", "site_leads", "site_tactic", "site_shared", "site_unit"),
    ("old", "new"),
    ("same_patch", "same_inside", "same_original", "same_before", "same_unit"),
    ("displaced", "displaced_unit"),
)


class MalformedTemplate(ValueError):
    """The arrays are no plans, for the reason given."""


def _type_of(field: str) -> type[np.generic]:
    return _TYPES.get(field, np.int32)


def as_words(data: Array | bytearray) -> Array:
    """A view of the data as the 32-bit words that begin at each byte."""
    return np.ndarray(max(len(data) - 3, 0), "<i4", data, strides=(1,))


def outcome_of(outcome: str) -> int:
    """The number by which a row stores an outcome: its index in OUTCOMES."""
    return OUTCOMES.index(outcome)


def tactic_of(outcome: int) -> str:
    """The name of the tactic that the number of an outcome stands for; the probe must have one."""
    return NAMES[outcome]


@dataclass(frozen=True)
class PlanTemplate:
    """The arrays. ``names``: the names of the units, as they are stored. ``code``: the block. ``text``, ``runtime``,
    ``callee``: the places in it of rel32 fields that refer to code, to the runtime, and to the called function;
    ``words``: those of the halves of absolute addresses of code; ``holes``: those of the numbers of rows.

    A patch is in the block, or (not ``patch_inside``) the jump of a pun, which goes to ``patch_leads`` in the block. A
    site ends with a rel32 that refers to ``site_leads``, unless that is -1; ``site_shared`` bytes behind it are a part
    of its displacement. ``site_tactic``, an index into NAMES, is the tactic of its splice: a bounce has two sites, the
    window first. ``same_*`` are equivalences.
    """

    names: Array
    unit_start: Array
    unit_owner: Array
    row_unit: Array
    row_kind: Array
    row_block: Array
    row_address: Array
    row_after: Array
    row_outcome: Array
    code: Array
    text: Array
    runtime: Array
    callee: Array
    words: Array
    holes: Array
    patch_at: Array
    patch_size: Array
    patch_inside: Array
    patch_leads: Array
    patch_unit: Array
    site_at: Array
    site_size: Array
    site_leads: Array
    site_tactic: Array
    site_shared: Array
    site_unit: Array
    old: Array
    new: Array
    same_patch: Array
    same_inside: Array
    same_original: Array
    same_before: Array
    same_unit: Array
    displaced: Array
    displaced_unit: Array

    @cached_property
    def unit_names(self) -> tuple[str, ...]:
        text = self.names.tobytes().decode("utf-8", "surrogateescape")
        return tuple(text.split("\0")) if len(self.unit_start) else ()

    @property
    def rows(self) -> int:
        return len(self.row_unit)

    def whole(self) -> NDArray[np.bool_]:
        """Whether all probes of each unit's function, in whichever part, have a tactic."""
        whole = np.ones(len(self.unit_start), np.bool_)
        whole[self.unit_owner[self.row_unit[self.row_outcome >= len(NAMES)]]] = False
        return whole[self.unit_owner]

    def entered(self) -> NDArray[np.bool_]:
        """Whether calls of each unit's function can be followed: its entry has a tactic.

        A head is met once a round, and only the returns tell a call from a round, so all returns must have a tactic
        then, too.
        """
        refused, owner = self.row_outcome >= len(NAMES), self.unit_owner[self.row_unit]
        heads = np.isin(owner, owner[self.row_kind == HEAD])
        entered = np.ones(len(self.unit_start), np.bool_)
        entered[owner[refused & ((self.row_kind != RETURN) | heads)]] = False
        return entered[self.unit_owner]

    def cramped(self) -> NDArray[np.bool_]:
        """Whether some probe of each unit's function was refused for lack of room only. A plan made in the target may
        find room: there it is known what lies around the code in memory, and which splices are beside it.
        """
        cramped = np.zeros(len(self.unit_start), np.bool_)
        cramped[self.unit_owner[self.row_unit[np.isin(self.row_outcome, _OF_ROOM)]]] = True
        return cramped[self.unit_owner]

    def with_parts(self, units: Array) -> Array:
        """A mask of all units whose function has a part among ``units``, a mask."""
        some = np.zeros(len(units), np.bool_)
        some[self.unit_owner[units]] = True
        found: Array = some[self.unit_owner]
        return found

    def reasons(self) -> dict[int, str]:
        """The reasons why functions are not whole, by the owner's number: the reason for which the first probe of each
        was refused.
        """
        refused = np.flatnonzero(self.row_outcome >= len(NAMES))[::-1]
        owners = self.unit_owner[self.row_unit[refused]].tolist()
        return {unit: OUTCOMES[why] for unit, why in zip(owners, self.row_outcome[refused].tolist(), strict=True)}

    def outcomes(self, rows: NDArray[np.bool_]) -> tuple[dict[str, int], dict[str, int]]:
        """The numbers of the rows ``rows``, a mask, by tactic, and by reason for a refusal."""
        counts = np.bincount(self.row_outcome[rows], minlength=len(OUTCOMES)).tolist()
        present = {name: number for name, number in zip(OUTCOMES, counts, strict=True) if number}
        tactics = {name: present.pop(name) for name in NAMES if name in present}
        return tactics, present

    def to_arrays(self) -> dict[str, Array]:
        """The template as a few arrays, since each costs time to read: all fields of one type one behind the other, and
        an array of their lengths.
        """
        names = [field.name for field in fields(self)]
        arrays = {"lengths": np.array([len(getattr(self, name)) for name in names], np.int64)}
        for kind in _KINDS:
            arrays[np.dtype(kind).name] = np.concatenate([getattr(self, n) for n in names if _type_of(n) is kind])
        return arrays

    @classmethod
    def of_columns(cls, columns: Mapping[str, Array]) -> PlanTemplate:
        """A template of columns of numbers of any width; one that is not there is empty, as for an image without
        functions. Raises OverflowError when a number is too large."""
        narrow = {name: column.astype(_type_of(name)) for name, column in columns.items()}
        if any(not np.array_equal(narrow[name], column) for name, column in columns.items()):
            raise OverflowError("an image beyond 2 GiB")
        empty = {field.name: np.zeros(0, _type_of(field.name)) for field in fields(cls)}
        return cls(**{**empty, **narrow})

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> PlanTemplate:
        """The template that to_arrays() gave. Raises MalformedTemplate for other arrays."""
        names = [field.name for field in fields(cls)]
        types = {"lengths": np.int64, **{np.dtype(kind).name: kind for kind in _KINDS}}
        if arrays.keys() != types.keys() or any(a.ndim != 1 or a.dtype != types[n] for n, a in arrays.items()):
            raise MalformedTemplate("other arrays")
        lengths = arrays["lengths"].tolist()
        if len(lengths) != len(names) or min(lengths) < 0:
            raise MalformedTemplate("other fields")
        columns: dict[str, Array] = {}
        for kind in _KINDS:
            rest = arrays[np.dtype(kind).name]
            for name, length in zip(names, lengths, strict=True):
                if _type_of(name) is kind:
                    columns[name], rest = rest[:length], rest[length:]
            if len(rest):
                raise MalformedTemplate("longer arrays")
        if any(len(columns[name]) != length for name, length in zip(names, lengths, strict=True)):
            raise MalformedTemplate("shorter arrays")
        made = cls(**columns)
        made._check()
        return made

    def _check(self) -> None:
        """Check that every number refers to something that exists. Raises MalformedTemplate."""
        for group in _GROUPS:
            if len({len(getattr(self, name)) for name in group}) != 1:
                raise MalformedTemplate(f"not as many {group[0]} as {group[1]}")
        units, size = len(self.unit_start), len(self.code)
        if len(self.unit_names) != units:
            raise MalformedTemplate("not a name for each unit")
        for name in ("unit_owner", "row_unit", "patch_unit", "site_unit", "same_unit", "displaced_unit"):
            self._within(name, 0, units)
        self._within("row_kind", 0, RETURN + 1)
        self._within("row_outcome", 0, len(OUTCOMES))
        for name, room in (("text", 4), ("runtime", 4), ("callee", 4), ("holes", 4), ("words", 12)):
            self._within(name, 0, size - room + 1)
        if len(self.holes) and int(as_words(self.code).view("<u4")[self.holes].max()) >= self.rows:
            raise MalformedTemplate("a number is none of a row")
        self._within("patch_leads", 0, size)
        self._within("patch_size", 1, size + 1)
        self._within("site_leads", -1, size)
        self._within("site_tactic", 0, len(NAMES))
        self._within("site_shared", 0, JUMP_SIZE)
        self._within("site_size", 1, _LONGEST + 1)
        self._check_places(size)

    def _check_places(self, size: int) -> None:
        inside = self.patch_inside
        at, end = self.patch_at[inside], self.patch_at[inside] + self.patch_size[inside]
        if (at < 0).any() or (end > size).any() or (self.patch_size[~inside] != JUMP_SIZE).any():
            raise MalformedTemplate("a patch is not in the block")
        same = self.same_patch[self.same_inside]
        if (same < 0).any() or (same > size).any():
            raise MalformedTemplate("an equivalence is not in the block")
        if int(self.site_size.sum(dtype=np.int64)) != len(self.old):
            raise MalformedTemplate("not the bytes of the sites")
        if (self.site_size[self.site_leads >= 0] < JUMP_SIZE).any():
            raise MalformedTemplate("a site is too short to lead anywhere")
        if (self.unit_owner[self.unit_owner] != self.unit_owner).any():
            raise MalformedTemplate("a part belongs to a part")

    def _within(self, name: str, low: int, high: int) -> None:
        array = getattr(self, name)
        if len(array) and not (int(array.min()) >= low and int(array.max()) < high):
            raise MalformedTemplate(f"{name} is out of range")


# The template among other plans of the same image.


def site_bytes(template: PlanTemplate) -> tuple[Array, Array]:
    """The address, and the unit, of every byte that sites change, in the order of the sites."""
    size = template.site_size.astype(np.int64)
    at = np.repeat(template.site_at - np.cumsum(size) + size, size) + np.arange(len(template.new))
    return at, np.repeat(template.site_unit, size)


def pinned(template: PlanTemplate) -> tuple[Array, Array, Array]:
    """The ranges of bytes that puns share with the code behind them: arrays of from, to, and the unit."""
    sites = np.flatnonzero(template.site_shared)
    low = template.site_at[sites].astype(np.int64) + template.site_size[sites]
    return low, low + template.site_shared[sites], template.site_unit[sites]


def conflicts(ground: PatchContext, template: PlanTemplate) -> Array:
    """Whether each unit needs bytes that other plans use, or would change."""
    lost = np.zeros(len(template.unit_start), np.bool_)
    at, unit = site_bytes(template)
    lost[unit[ground.registry.taken(at)]] = True
    for low, high, owner in zip(*(column.tolist() for column in pinned(template)), strict=True):
        lost[owner] |= not ground.registry.unclaimed(low, high)
    return lost


def claim(ground: PatchContext, template: PlanTemplate, new: Array, units: Array) -> None:
    """Claim the bytes of ``units``, a mask, so that other plans of the ground keep away from them. ``new``: the bytes
    of all sites, as they were placed.
    """
    at, unit = site_bytes(template)
    rows = units[unit]
    ground.registry.claim_bytes(at[rows], new[rows])
    for low, high, owner in zip(*(column.tolist() for column in pinned(template)), strict=True):
        if units[owner]:
            ground.registry.pin(low, high)


def unclaim(ground: PatchContext, template: PlanTemplate, units: Array) -> None:
    """Give back the bytes of ``units``, a mask, that claim() has claimed."""
    at, unit = site_bytes(template)
    ground.registry.release_bytes(at[units[unit]])
    for low, high, owner in zip(*(column.tolist() for column in pinned(template)), strict=True):
        if units[owner]:
            ground.registry.unpin(low, high)
