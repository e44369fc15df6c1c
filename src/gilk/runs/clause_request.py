# SPDX-License-Identifier: LGPL-2.1-or-later
"""Requests of a run that clauses of D carry out: stacks, conditions, slow calls, and points of D's providers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from gilk.errors import UsageError
from gilk.session.request import KERNEL, Builtin
from gilk.spec import conditional, duration
from gilk.spec.conditional import NamedPoint
from gilk.spec.point import Spec
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.session.inlined import NamedFunctions
    from gilk.session.probing import PreparedSession
    from gilk.targets.process import Process


class ClauseInstrument(StrEnum):
    """The instruments that a clause can be."""

    COUNT = "count"
    STAMP = "stamp"
    ARGS = "args"
    REGS = "regs"
    TIME = "time"
    STACK = "stack"


@dataclass(frozen=True, slots=True)
class ClauseRequest:
    """A request ``-i POINTS[/CONDITION/]=INSTRUMENT``. ``condition`` is an expression of D, '' for none.

    ``longer_than``: ns; if above 0, calls that take less leave no record.
    """

    where: Spec | NamedPoint
    instrument: ClauseInstrument
    condition: str = ""
    longer_than: int = 0

    @property
    def of_kernel(self) -> bool:
        """False: such requests are about processes."""
        return False

    @property
    def is_timed(self) -> bool:
        """Whether calls are timed, so that the beginning of a call is kept until its end."""
        return self.instrument is ClauseInstrument.TIME or self.longer_than > 0

    def label(self, point: str) -> str:
        """The name of one of its points in results, with condition and threshold."""
        text = f"{point}/{self.condition}/" if self.condition else point
        return f"{text} longer than {duration.text(self.longer_than)}" if self.longer_than else text


def parse(text: str, longer_than: int = 0) -> ClauseRequest | None:
    """Read a request; returns None if it needs no clause. ``longer_than``: ns, 0 for calls of any duration.

    Raises UsageError `bad-condition`, `bad-point`, `no-clause-there`.
    """
    where, separator, name = text.rpartition("=")
    if not separator:
        return None
    if name not in list(ClauseInstrument):
        _check_plain(where, name)
        return None
    instrument = ClauseInstrument(name)
    timed = longer_than if instrument in (ClauseInstrument.TIME, ClauseInstrument.STACK) else 0
    found = conditional.parse(where)
    if not (found.condition or timed or isinstance(found.where, NamedPoint) or instrument is ClauseInstrument.STACK):
        return None
    request = ClauseRequest(found.where, instrument, found.condition, timed)
    _check(request)
    return request


def _check_plain(where: str, name: str) -> None:
    """Check that a strategy, a C function or an unknown instrument has neither a condition nor a point of D's
    providers.

    Raises UsageError `no-clause-there`.
    """
    if where.startswith(("usdt:", "syscall:")) or where.endswith("/"):
        hint = f"conditions, usdt: and syscall: take {', '.join(ClauseInstrument)}; a C function can look for itself"
        raise UsageError("no-clause-there", f"{name!r} does not go with {where!r}", hint)


def _check(request: ClauseRequest) -> None:
    where = request.where
    if isinstance(where, Spec):
        if where.image == KERNEL:
            hint = "gilk dtrace --on MACHINE has conditions and stack() in the kernel"
            raise UsageError("no-clause-there", "stacks, conditions and --longer-than are about processes", hint)
        if request.is_timed and where.where != "entry":
            raise UsageError("time-at-entry", "calls are timed from `entry`; gilk adds the returns")
    elif request.is_timed and (where.kind == "usdt" or where.side != "entry"):
        hint = "a function's entry and syscall:NAME begin calls"
        raise UsageError("time-at-entry", f"{where} is no beginning of a call, which could be timed", hint)


def builtin(instrument: ClauseInstrument) -> Builtin:
    """The instrument of sessions whose records look the same; for `stack`, which makes no records, `count`."""
    return Builtin.COUNT if instrument is ClauseInstrument.STACK else Builtin(instrument)


#: Makes a session that carries such requests out in a process, and puts nothing in yet. The fourth argument is called
#: with the error of each request that has no point there, and None is returned if no request has any; if it is None,
#: such an error is raised. Points are looked up in the last argument: the process, or a view of it with some of its
#: images.
ClauseSessions = Callable[
    ["Process", Sequence[ClauseRequest], "NamedFunctions", Callable[[UsageError], None] | None, "Process"],
    "PreparedSession | None",
]
