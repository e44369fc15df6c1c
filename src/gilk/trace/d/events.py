# SPDX-License-Identifier: LGPL-2.1-or-later
"""Events of a D program: all its results, as frozen values in the order in which they are printed.

A record is `ProbeFired`, then what its actions leave (`Printed`, `Snapshot`) or have done, then `RecordEnded`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

from gilk.lang.d.probes import DProbe
from gilk.lang.data import Aggregation
from gilk.trace.d.values import Value
from gilk.values import dataclass

# Before and after.


@dataclass(frozen=True, slots=True)
class Matched:
    """How many probes a program is about. ``kind``: ``script`` or ``description``, of that name."""

    kind: str
    name: str
    probes: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A probe that is meant, of -l."""

    probe: DProbe


@dataclass(frozen=True, slots=True)
class Refused:
    """A probe that cannot be had."""

    probe: DProbe
    reason: str


@dataclass(frozen=True, slots=True)
class Lowered:
    """An option that asked for more memory than there was, and what it is instead, in bytes."""

    option: str
    size: int


@dataclass(frozen=True, slots=True)
class Began:
    """BEGIN has fired. ``process``: the one that is traced; None without."""

    process: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """END has fired. The events that follow are not of actions of the program."""


@dataclass(frozen=True, slots=True)
class Noted:
    """Something that the user is to know of the process."""

    text: str


@dataclass(frozen=True, slots=True)
class Exited:
    """The last event. ``status``: for the shell. ``restored``: the code of the process is what it was; None without."""

    status: int
    restored: bool | None = None


# Records.


@dataclass(frozen=True, slots=True)
class ProbeFired:
    """The beginning of a record, which clause ``clause`` (from 1) made. ``time``: ns, as D's ``timestamp``."""

    probe: DProbe
    cpu: int
    clause: int
    time: int = 0
    pid: int = 0
    tid: int = 0


@dataclass(frozen=True, slots=True)
class Printed:
    """By an action such as printf() or trace(). ``format``: None without.

    ``names``: of addresses that the format wants names of.
    """

    action: str
    values: tuple[Value, ...] = ()
    format: str | None = None
    names: tuple[tuple[int, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class RecordEnded:
    """The end of the record that began last."""


# Aggregations.


@dataclass(frozen=True, slots=True)
class Column:
    """``normal``: normalize()'s factor, 1 after denormalize(). Totals that are no distributions are divided already."""

    aggregation: Aggregation
    normal: int = 1


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """``totals``: an Integer or a Distribution for each column.

    ``processors``: for each column what each processor has counted, with the option aggpercpu; else nothing for each.
    """

    keys: tuple[Value, ...]
    totals: tuple[Value, ...]
    processors: tuple[tuple[tuple[int, Value], ...], ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Aggregations as they were at one moment: of printa(), or ``final``, at the end. Several have the same keys.

    ``rows``: sorted as the options say. ``format``, ``names``: as those of `Printed`.
    """

    columns: tuple[Column, ...]
    rows: tuple[SnapshotRow, ...]
    format: str | None = None
    names: tuple[tuple[int, bytes], ...] = ()
    final: bool = False


@dataclass(frozen=True, slots=True)
class Cleared:
    """clear(): the values of that aggregation are zero."""

    aggregation: str


@dataclass(frozen=True, slots=True)
class Truncated:
    """trunc(): the ``keep`` largest are left, of a negative number the smallest."""

    aggregation: str
    keep: int = 0


@dataclass(frozen=True, slots=True)
class Normalized:
    """normalize(); denormalize() is ``by`` 1."""

    aggregation: str
    by: int = 1


# Other effects of actions.


@dataclass(frozen=True, slots=True)
class OptionSet:
    """By setopt()."""

    name: str
    value: int | str


@dataclass(frozen=True, slots=True)
class CommandRan:
    """system(), and how it ended: 128 and more by a signal."""

    command: bytes
    status: int


@dataclass(frozen=True, slots=True)
class Redirected:
    """freopen(): empty leads back to where output went at first."""

    file: bytes


@dataclass(frozen=True, slots=True)
class Emptied:
    """ftruncate(): the file that output goes to."""


# Errors and losses.


class DropKind(IntEnum):
    """enum gd_drop; behind it, times that clauses of a kernel's program did not run: as others ran there, for want of
    stack."""

    PRINCIPAL = 0
    AGGREGATION = 1
    DYNAMIC = 2
    SPECULATION = 3
    SPECULATION_BUSY = 4
    SPECULATION_UNAVAILABLE = 5
    DBLERROR = 6
    STACK = 7
    NESTED = 8
    SHALLOW = 9


@dataclass(frozen=True, slots=True)
class Dropped:
    """A number of things that found no room since the last event of that kind."""

    kind: DropKind
    cpu: int  # modulo the number of buffers
    count: int


@dataclass(frozen=True, slots=True)
class Faulted:
    """A run-time error of a clause; ``kind`` is arg4 of dtrace:::ERROR."""

    probe: DProbe
    clause: int
    kind: int
    address: int


@dataclass(frozen=True, slots=True)
class ActionFailed:
    """One that gilk was to carry out. ``why`` is a sentence."""

    probe: DProbe
    clause: int
    why: str


@dataclass(frozen=True, slots=True)
class Corrupted:
    """Something in the memory of the program's cannot be what a clause has written."""

    what: str


Event: TypeAlias = (
    Listed | Matched | Refused | Lowered | Began | Ended | Noted | Exited | ProbeFired | Printed | RecordEnded
    | Snapshot | Cleared | Truncated | Normalized | OptionSet | CommandRan | Redirected | Emptied | Dropped | Faulted
    | ActionFailed | Corrupted
)  # fmt: skip
