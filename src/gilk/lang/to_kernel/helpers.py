# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions of the driver that code for the kernel may call, by number: a row each.

The row's number is its place. They take at most five numbers, which they check themselves: places in the frame with
sizes, places in the program's own tables. The first number of a row bounds the instructions that one runs while no
other processor is at the same entry, the second those for each eight bytes of the frame. ``fault``: it may find that
its clause cannot go on, and then gives 0.
"""

from __future__ import annotations

from gilk.values import dataclass

_ROWS = """
    begin           40      0   clause: 0 where the program is not active
    end             60      0
    fail            10      0   fault, address: the clause has this fault
    fault           200     0   epid, clause: its record goes, and one tells of the fault
    timestamp       40      0
    walltimestamp   40      0
    vtimestamp      20      0
    identity        20      0   which: a number of the task
    execname        60      0   to, size
    probe_text      60      8   which, to, size
    aggregate       900     16  aggregation, key, value, weight
    load_dynamic    900     16  variable, key, key size, to, size
    store_dynamic   3000    24  variable, key, key size, from, size
    delete_dynamic  900     16  variable, key, key size
    load_global     20      4   global, to, size
    store_global    20      4   from, global, size
    reserve         900     0   epid, size: 0 where there is no room
    commit          40      4   from, size
    exit            30      0   status
    constant        20      8   constant, length, to, size
    compare         20      24  string, size, string, size: below, at or above 0
    load            60      8   to, address, size; fault
    copyin_string   200     24  to, address, size; fault
    zero            20      4   to, size
    divide          60      0   by, what, kind: bit 0 the rest, bit 1 signed; fault
    rand            20      0
    copy            20      8   from, to, size
    stack           400     250 to, size
    caller          1000    0
    stackdepth      32000   0
"""


@dataclass(frozen=True, slots=True)
class Helper:
    number: int
    name: str
    cost: int
    per_word: int


def _helpers() -> dict[str, Helper]:
    rows = [line.split(maxsplit=3) for line in _ROWS.strip().splitlines()]
    return {row[0]: Helper(number, row[0], int(row[1]), int(row[2])) for number, row in enumerate(rows)}


HELPERS = _helpers()
