# SPDX-License-Identifier: LGPL-2.1-or-later
"""The events of a D program: all its results, as frozen values in the order in which they are printed.

A record is a `ProbeFired`, then the events of its actions (`Printed`, `Snapshot` and others), then a `RecordEnded`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

from gilk.lang.d.probes import DProbe
from gilk.lang.d.reliance import ProbeStability
from gilk.lang.data import Aggregation
from gilk.trace.d.values import Value
from gilk.values import dataclass

# Before and after.


@dataclass(frozen=True, slots=True)
class Matched:
    """The number of probes that a program is about. ``kind`` is ``script`` or ``description``; ``name`` is its name."""

    kind: str
    name: str
    probes: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A probe that matches, for the option -l. ``more``: what -v adds."""

    probe: DProbe
    more: ProbeStability | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A probe that cannot be enabled, and the reason."""

    probe: DProbe
    reason: str


@dataclass(frozen=True, slots=True)
class Lowered:
    """An option that asked for more memory than there was, and its size in bytes now."""

    option: str
    size: int


@dataclass(frozen=True, slots=True)
class Began:
    """BEGIN has fired. ``process`` is the process that is traced; None if there is none."""

    process: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """END has fired. The events that follow are not those of actions of the program."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A remark about the process for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Exited:
    """The last event. ``status`` is for the shell. ``restored``: whether the code of the process is what it was; None
    without a process.
    """

    status: int
    restored: bool | None = None


# Records.


@dataclass(frozen=True, slots=True)
class ProbeFired:
    """The beginning of a record that clause number ``clause`` (from 1) has made. ``time`` is in ns, as D's
    ``timestamp``.
    """

    probe: DProbe
    cpu: int
    clause: int
    time: int = 0
    pid: int = 0
    tid: int = 0


@dataclass(frozen=True, slots=True)
class Printed:
    """The output of an action such as printf() or trace(). ``format`` is None if there is none.

    ``names``: the names of addresses that the format asks for.
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
    """An aggregation in a snapshot. ``normal`` is the factor of normalize(), 1 after denormalize(); totals that are no
    distributions are divided by it already.
    """

    aggregation: Aggregation
    normal: int = 1


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """A row of a snapshot. ``totals``: an Integer or a Distribution for each column.

    ``processors``: for each column the values of each processor, with the option aggpercpu; otherwise () for each.
    """

    keys: tuple[Value, ...]
    totals: tuple[Value, ...]
    processors: tuple[tuple[tuple[int, Value], ...], ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Aggregations as they were at one moment: for printa(), or ``final``, at the end. Several of them have the same
    keys.

    ``rows`` are sorted as the options say. ``format`` and ``names`` are as those of `Printed`.
    """

    columns: tuple[Column, ...]
    rows: tuple[SnapshotRow, ...]
    format: str | None = None
    names: tuple[tuple[int, bytes], ...] = ()
    final: bool = False


@dataclass(frozen=True, slots=True)
class Cleared:
    """clear() has set the values of an aggregation to zero."""

    aggregation: str


@dataclass(frozen=True, slots=True)
class Truncated:
    """trunc() has left the ``keep`` largest rows of an aggregation, or the smallest if ``keep`` is negative."""

    aggregation: str
    keep: int = 0


@dataclass(frozen=True, slots=True)
class Normalized:
    """normalize() has set the factor of an aggregation to ``by``; denormalize() sets it to 1."""

    aggregation: str
    by: int = 1


# Other effects of actions.


@dataclass(frozen=True, slots=True)
class OptionSet:
    """setopt() has set an option."""

    name: str
    value: int | str


@dataclass(frozen=True, slots=True)
class CommandRan:
    """system() has run a command; ``status`` tells how it ended: 128 and more by a signal."""

    command: bytes
    status: int


@dataclass(frozen=True, slots=True)
class Redirected:
    """freopen() has redirected the output to a file; an empty name leads back to where it went at first."""

    file: bytes


@dataclass(frozen=True, slots=True)
class Emptied:
    """ftruncate() has emptied the file that the output goes to."""


# Errors and losses.


class DropKind(IntEnum):
    """The kinds of losses: enum gd_drop, and three kinds of times that clauses did not run: in a kernel because others
    ran there already (NESTED), or for want of stack (SHALLOW), and because the kernel held back samples (THROTTLED).
    """

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
    THROTTLED = 10


@dataclass(frozen=True, slots=True)
class Dropped:
    """The number of things of a kind that found no room since the last event of that kind."""

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
    """An action that gilk could not carry out, such as ``setopt``. ``why`` is a sentence."""

    probe: DProbe
    clause: int
    action: str
    why: str


@dataclass(frozen=True, slots=True)
class Corrupted:
    """Something in the program's memory cannot have been written by a clause."""

    what: str


Event: TypeAlias = (
    Listed | Matched | Refused | Lowered | Began | Ended | Noted | Exited | ProbeFired | Printed | RecordEnded
    | Snapshot | Cleared | Truncated | Normalized | OptionSet | CommandRan | Redirected | Emptied | Dropped | Faulted
    | ActionFailed | Corrupted
)  # fmt: skip
