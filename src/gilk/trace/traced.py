# SPDX-License-Identifier: LGPL-2.1-or-later
"""The description of a trace besides its records: the events at which it begins and ends, and the functions it leaves
out.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, TypeVar

from gilk.errors import StoreError
from gilk.values import dataclass

#: The time of a stop that has not come: the trace is still running, or gilk was killed.
NEVER = -1
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Omitted:
    """A function that was no longer followed from `from_ns` on, because its calls were many and short. `calls` is the
    number of calls recorded until then. From then on its callees are recorded as calls of its caller.
    """

    function: str
    image: str
    from_ns: int
    calls: int


@dataclass(frozen=True, slots=True)
class Unfollowed:
    """A function without any call in the trace, because a point of it was refused, for `reason` (docs/refusals.md).
    `callers` are the functions of its image that call it directly, in which its calls may be missing.
    """

    function: str
    image: str
    reason: str
    callers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unended:
    """A function whose entries are recorded, but not all of its returns, for `reason`: a call that leaves by such a
    return is closed by its caller (CallState.CLOSED).
    """

    function: str
    image: str
    reason: str


@dataclass(frozen=True, slots=True)
class TraceDescription:
    """The bounds and the scope of a trace. Times are in ns since the session's start, `NEVER` for an event that has not
    come. Events are as the user wrote them (`call:main`, `for:200ms`); `scope` says in words which code was followed,
    '' for all. `depth` is the number of levels of nested calls that belong to the trace; 0 for all.
    """

    start_ns: int = 0
    stop_ns: int = NEVER
    start_event: str = "now"
    stop_event: str = ""
    scope: str = ""
    omitted: tuple[Omitted, ...] = ()
    depth: int = 0
    unfollowed: tuple[Unfollowed, ...] = ()
    unended: tuple[Unended, ...] = ()

    def to_json(self) -> dict[str, Any]:
        lists = {name: [asdict(each) for each in getattr(self, name)] for name in ("omitted", "unfollowed", "unended")}
        return {**asdict(self), **lists}

    @classmethod
    def from_json(cls, raw: Any) -> TraceDescription | None:
        """The description that to_json() gave; None for None. Raises StoreError `bad-trace` for anything else."""
        if raw is None:
            return None
        try:
            omitted = tuple(_checked(Omitted(**row)) for row in raw["omitted"])
            unfollowed = tuple(_unfollowed(row) for row in raw.get("unfollowed", ()))
            unended = tuple(_checked(Unended(**row)) for row in raw.get("unended", ()))
            return _checked(cls(**{**raw, "omitted": omitted, "unfollowed": unfollowed, "unended": unended}))
        except (TypeError, KeyError) as error:
            raise StoreError("bad-trace", f"its description of the trace is not valid: {error}") from error


def _unfollowed(row: Any) -> Unfollowed:
    """The value of a row of JSON. Raises TypeError."""
    callers = row.get("callers", []) if isinstance(row, dict) else None
    if not isinstance(callers, list) or not all(isinstance(name, str) for name in callers):
        raise TypeError("callers are no names")
    return _checked(Unfollowed(**{**row, "callers": tuple(callers)}))


def _checked(value: T) -> T:
    """`value`, if each field has the type of its annotation, and numbers have at most 63 bits. Raises TypeError."""
    for name, kind in type(value).__annotations__.items():
        expected = {"int": int, "str": str}.get(kind, tuple)
        found = getattr(value, name)
        if type(found) is not expected:
            raise TypeError(f"{name} is no {expected.__name__}")
        if isinstance(found, int) and not -(1 << 62) < found < 1 << 62:
            raise TypeError(f"{name} is too large")
    return value
