# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions of the driver that code for the kernel may call, by number: one row for each.

The number of a helper is the place of its row. A helper takes at most five numbers, which it checks itself: offsets in
the frame with sizes, and places in the program's own tables. The first number of a row bounds the instructions that a
call runs while no other CPU is at the same entry; the second bounds those for each eight bytes that it handles. The
digits tell which of its arguments, from 1, give the number of these bytes, together; ``-`` means as many as the frame
has. ``fault``: the helper may find that the clause cannot go on, and then returns 0.
"""

from __future__ import annotations

from gilk.values import dataclass

_ROWS = """
    begin               60      0       -     clause: 0 where the program is not active
    end                 260     0       -
    fail                30      0       -     fault, address: the clause has this fault
    fault               1000    0       -     epid, clause: its record goes, and one tells of the fault
    timestamp           50      0       -
    walltimestamp       60      0       -
    vtimestamp          20      0       -
    identity            50      0       -     which: a number of the task
    progenyof           5000    0       -     process: whether the task is its, or one of its ancestors is
    execname            120     6       2     to, size
    probe_text          80      80      3     which, to, size
    aggregate           900     16      -     aggregation, key, value, weight
    load_dynamic        900     16      35   variable, key, key size, to, size
    store_dynamic       3000    24      35   variable, key, key size, from, size
    delete_dynamic      900     16      3     variable, key, key size
    load_global         90      6       3     global, to, size
    store_global        90      6       3     from, global, size
    reserve             900     40      2     epid, size: 0 where there is no room
    commit              260     6       2     from, size
    speculation         5500    0       -     0: there is none
    speculate           60      0       -     speculation: 0 where nothing can be recorded in it
    commit_speculation  13000   0       -     speculation; fault
    discard_speculation 120     0       -     speculation; fault
    exit                30      0       -     status
    constant            80      8       4     constant, length, to, size
    compare             60      44      24   string, size, string, size: below, at or above 0
    load                80      8       3     to, address, size; fault
    copyin_string       200     100     4     to, address, size; fault
    zero                80      6       2     to, size
    divide              60      0       -     by, what, kind: bit 0 the rest, bit 1 signed; fault
    rand                50      0       -
    copy                80      8       3     from, to, size
    stack               800     500     2     to, size
    caller              2000    0       -
    stackdepth          33000   0       -
    image               600     0       -
    ustack              800     100     2     to, size
    ucaller             800     0       -
    ustackdepth         26000   0       -
    uregister           80      0       -     to, register; fault
    present             3000    0       -     address, size; fault
    copyin_text         200     24      4     to, address, length, size; fault
    strlen              60      64      2     string, strsize
    strjoin             100     280     4     to, string, string, strsize
    substr              120     240     5     to, string, index, length, strsize
    path_part           120     480     4     which, to, string, strsize
    change_case         100     280     4     which, to, string, strsize
    lltostr             5000    80      4     to, number, base, strsize; fault
    strtoll             80      240     4     to, string, base, strsize; fault
    find                120     300     5     which, to, string, character, strsize: 0 where it is not in there
    index               200     700     5     which, string, string with room behind it, start, strsize
    strstr              200     700     4     to, string, string with room behind it, strsize: 0 where it is not
    strtok              200     450     5     to, string, string, where the rest is kept, strsize: 0 where none is left
    character           80      64      4     to, string, index, strsize; fault
    after               120     220     4     to, string, by, strsize; fault
    address_text        3000    40      5     which, to, address, family or kind, strsize; fault
    swap                40      0       -     number, bytes
    arguments           800     200     3     to, memory of a process, strsize
    path_text           12000   60      4     which, to, address, strsize; fault
    packet              4500    12      3     to, address, size; fault
    alloca              3300    0       -     bytes: the address; fault
    assign              120     8       3     address, from, size; fault
    bcopy               9000    0       -     address, from address, size; fault
    bcopy_text          5000    80      4     address, size, string, size of it; fault
    address             60      0       -     which: 0 the frame, 1 globals; place, size: the address; fault
    raise               400     0       -     signal; fault
    copyout             16000   0       -     from address, address, size; fault
    copyout_text        400     80      2     string, size of it, address, most; fault
    chill               400     0       -     ns, which are not counted; fault
"""
#: The first of the helpers that change processes: only a program that is loaded as destructive may call them.
FIRST_DEED = "raise"


@dataclass(frozen=True, slots=True)
class Helper:
    number: int
    name: str
    cost: int
    per_word: int
    sizes: tuple[int, ...]  # the numbers of the arguments that give sizes, from 0


def _helpers() -> dict[str, Helper]:
    rows = [line.split(maxsplit=4) for line in _ROWS.strip().splitlines()]
    return {row[0]: _helper(number, *row[:4]) for number, row in enumerate(rows)}


def _helper(number: int, name: str, cost: str, per_word: str, sizes: str) -> Helper:
    return Helper(number, name, int(cost), int(per_word), tuple(int(each) - 1 for each in sizes.strip("-")))


HELPERS = _helpers()
