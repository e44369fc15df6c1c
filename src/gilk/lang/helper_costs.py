# SPDX-License-Identifier: LGPL-2.1-or-later
"""Upper bounds of the costs of the functions of lang/runtime.py: one formula for each.

A formula takes the limits, the number of bytes that the function handles (of a datum, a record or memory) and the
number of bytes of a key. In native/runtime/d a loop over a string ends with strsize, and a loop over a table with the
table's reach (GD_PROBES, GD_REACH).
"""

from __future__ import annotations

from collections.abc import Callable

from gilk.lang.variables import BUILT_INS
from gilk.values import dataclass

DIVISION = 40
_CHILL = 500_000_000  # operations: one for each nanosecond of the longest chill() that is allowed
_SIGNALS = 64


@dataclass(frozen=True, slots=True)
class Cost:
    """A cost. ``operations`` is the total number, ``loads`` and ``stores`` are accesses of memory among them.
    ``copied`` is in bytes. ``calls`` is the number of system calls; the time that they take in the kernel does not
    count.
    """

    operations: int = 0
    loads: int = 0
    stores: int = 0
    copied: int = 0
    calls: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.operations + other.operations,
            self.loads + other.loads,
            self.stores + other.stores,
            self.copied + other.copied,
            self.calls + other.calls,
        )

    def __mul__(self, times: int) -> Cost:
        return Cost(
            self.operations * times, self.loads * times, self.stores * times, self.copied * times, self.calls * times
        )

    def dearer(self, other: Cost) -> Cost:
        """The larger value of each component."""
        return Cost(
            max(self.operations, other.operations),
            max(self.loads, other.loads),
            max(self.stores, other.stores),
            max(self.copied, other.copied),
            max(self.calls, other.calls),
        )


@dataclass(frozen=True, slots=True)
class CostLimits:
    """The limits of a program. ``strsize``, ``specsize`` and ``nspec`` are its options. ``scratch``: the bytes of
    scratch memory that one firing may take, from one of ``slots``. ``local``: the bytes of its `this` variables.
    ``probes`` and ``reach``: how many slots a search looks at in a table of aggregations and of variables.
    """

    strsize: int = 256
    scratch: int = 8192
    local: int = 8
    probes: int = 1024
    reach: int = 128
    slots: int = 256
    nspec: int = 1
    specsize: int = 4 << 20


Formula = Callable[[CostLimits, int, int], Cost]


def copying(size: int) -> Cost:
    """The cost of copying ``size`` bytes: whole words first, then the remaining bytes."""
    words = size // 8 + 7
    return Cost(10 + 6 * words, words, words, size)


def _fixed(operations: int, loads: int = 0, stores: int = 0, calls: int = 0) -> Formula:
    return lambda limits, size, key: Cost(operations, loads, stores, calls=calls)


def _string(each: int, loads: int = 1, stores: int = 0) -> Formula:
    """A formula with ``each`` operations for each character of a string."""
    return lambda limits, size, key: Cost(
        60 + each * limits.strsize, 6 + loads * limits.strsize, 10 + stores * limits.strsize, stores * limits.strsize
    )


def _nested(each: int) -> Formula:
    """A formula with ``each`` operations for each pair of characters of two strings."""
    return lambda limits, size, key: Cost(
        100 + each * limits.strsize * limits.strsize, 10 + 2 * limits.strsize * limits.strsize, 10 + limits.strsize,
        limits.strsize,
    )  # fmt: skip


def _compared(key: int) -> Cost:
    """The cost of comparing a key of ``key`` bytes with the key in a slot."""
    return Cost(30 + key, 8 + key // 4, 4)


def _hashed(key: int) -> Cost:
    return Cost(40 + 2 * key, 4 + key // 4, 8)


def _aggregated(operations: int, cells: int = 1) -> Formula:
    """A formula for adding to an aggregation: a search of the table for the key, and a new entry if the key is not
    found. Without a key there is no search.
    """

    def formula(limits: CostLimits, size: int, key: int) -> Cost:
        own = Cost(60 + operations, 12 + 2 * cells, 8 + 2 * cells)
        made = Cost(300, 70, 60) + copying(key)
        return own + made + (_hashed(key) + _compared(key) * limits.probes if key else Cost())

    return formula


def _stepped(limits: CostLimits, size: int, key: int) -> Cost:
    """The cost of llquantize, which finds the bucket by a binary search in its ``size`` edges."""
    return _aggregated(40)(limits, 0, key) + Cost(10, 1) * size.bit_length()


def _dynamic(searches: int) -> Formula:
    def formula(limits: CostLimits, size: int, key: int) -> Cost:
        searched = _compared(key) * limits.reach
        return Cost(60, 10, 16) + _hashed(key) + searched * searches + copying(size) + copying(key)

    return formula


def _copied(limits: CostLimits, size: int, key: int) -> Cost:
    """The cost of copying memory of the process; the kernel copies it unless it is gilk's own memory."""
    return Cost(60, 10, 16, calls=2) + copying(size)


def _copied_string(limits: CostLimits, size: int, key: int) -> Cost:
    """The cost of copying a string from the process, page by page."""
    pages = size // 4096 + 2
    return Cost(60 + 6 * size, 10 + size, 10) + (Cost(60, 10, 16, calls=2) * pages) + copying(size)


def _put_string(limits: CostLimits, size: int, key: int) -> Cost:
    return Cost(30 + 12 * size, 2 + 2 * size, 2 + size, size)


def _walked(limits: CostLimits, size: int, key: int) -> Cost:
    """The cost of unwinding: each frame takes a search in the unwind tables and a copy of its part of the stack."""
    return Cost(1500, 200, 200) + Cost(1000, 160, 40, 8192, 1) * (size // 8 + 1)


def _reserved(limits: CostLimits, size: int, key: int) -> Cost:
    """The cost of reserving ``size`` bytes in a ring: the oldest records give way, at most one for each 64 bytes."""
    return Cost(300, 60, 50) + Cost(40, 8, 2) * (size // 64 + 2)


def _kept(limits: CostLimits, size: int, key: int) -> Cost:
    """The cost of committing a speculation, which turns all its data into records."""
    records = limits.specsize // 64 + 1
    return Cost(100, 20, 20) + Cost(300, 60, 60) * records + copying(limits.specsize)


HELPERS: dict[str, Formula] = {
    **dict.fromkeys(("gd_fail", "gd_global", "gd_exit", "gd_is_set", "gd_put_symbol"), _fixed(16, 4, 6)),
    "gd_report": lambda limits, size, key: Cost(60, 10, 40) + _reserved(limits, 40, 0),
    "gd_reserve": _reserved,
    "gd_alloca": lambda limits, size, key: Cost(40 + 8 * limits.slots, 6 + limits.slots, 8),
    "gd_asked": lambda limits, size, key: Cost(56 + 8 * limits.slots, 8 + limits.slots, 10),
    **dict.fromkeys(("gd_count", "gd_sum", "gd_avg"), _aggregated(20, 2)),
    **dict.fromkeys(("gd_min", "gd_max"), _aggregated(60, 2)),
    "gd_stddev": _aggregated(60, 4),
    "gd_quantize": _aggregated(40),
    "gd_lquantize": _aggregated(40 + 2 * DIVISION),
    "gd_llquantize": _stepped,
    "gd_dynamic_load": _dynamic(1),
    "gd_dynamic_store": _dynamic(4),  # up to four searches: to overwrite, to find a free slot, to win it, to withdraw
    **dict.fromkeys(("gd_load", "gd_copy", "gd_assign", "gd_store"), _copied),
    "gd_copyin_string": _copied_string,
    "gd_store_string": lambda limits, size, key: Cost(60 + 6 * size, size) + _copied(limits, size, 0),
    **dict.fromkeys(("gd_put_string", "gd_put_text"), _put_string),
    "gd_text": _fixed(8, 2),
    "gd_copy_string": lambda limits, size, key: Cost(60 + 12 * size, 10 + 2 * size, 10 + size, size),
    **dict.fromkeys(("gd_timestamp", "gd_walltimestamp"), _fixed(60, 12, 4)),
    "gd_vtimestamp": _fixed(40, 6, 8, calls=1),
    **dict.fromkeys(("gd_environment", "gd_execname", "gd_probe_text"), _fixed(20, 6)),
    "gd_cpu": _fixed(20, 4, 2),
    "gd_register": _fixed(32, 10),
    "gd_cwd": _fixed(60, 8, 8, calls=1),
    "gd_fdpath": lambda limits, size, key: Cost(400 + 8 * limits.strsize, 20 + limits.strsize, 60, calls=3),
    **dict.fromkeys(("gd_fdoffset", "gd_fdflags", "gd_fdmount"), _fixed(120, 20, 40, calls=4)),
    "gd_threadname": _fixed(400, 40, 80, calls=2),
    **dict.fromkeys(("gd_threadnice", "gd_threadpriority"), _fixed(120, 20, 40, calls=4)),
    **dict.fromkeys(("gd_put_ustack", "gd_take_ustack"), _walked),
    "gd_ustackdepth": lambda limits, size, key: _walked(limits, 8 * 4096, 0),
    "gd_ucaller": lambda limits, size, key: _walked(limits, 16, 0),
    **dict.fromkeys(("gd_strlen", "gd_character", "gd_after"), _string(7)),
    **dict.fromkeys(("gd_strcmp", "gd_compare"), _string(12, 2)),
    "gd_strjoin": _string(30, 4, 2),
    "gd_substr": _string(24, 3, 1),
    **dict.fromkeys(("gd_basename", "gd_dirname", "gd_cleanpath"), _string(50, 6, 3)),
    **dict.fromkeys(("gd_tolower", "gd_toupper"), _string(24, 3, 1)),
    "gd_lltostr": lambda limits, size, key: Cost(60, 6, 80, 66) + Cost(DIVISION + 20, 2, 2) * 66,
    "gd_strtoll": _string(24, 2),
    **dict.fromkeys(("gd_strchr", "gd_strrchr"), _string(16, 2)),
    **dict.fromkeys(("gd_strstr", "gd_index", "gd_rindex"), _nested(9)),
    **dict.fromkeys(("gd_strtok", "gd_strtok_kept"), _nested(18)),
    "gd_inet_ntoa": _fixed(12 * (DIVISION + 40), 60, 80),
    **dict.fromkeys(("gd_inet_ntoa6", "gd_inet_ntoa6_short"), _fixed(1200 + 50 * (DIVISION + 40), 600, 400)),
    "gd_inet_ntop": lambda limits, size, key: Cost(1300 + 50 * (DIVISION + 40), 640, 440) + _copied(limits, 16, 0),
    "gd_link_ntop": lambda limits, size, key: Cost(60 + 20 * 40, 60, 80) + _copied(limits, 20, 0),
    "gd_rand": _fixed(40, 8, 4),
    "gd_speculation": lambda limits, size, key: Cost(20 + 16 * limits.nspec, 4 + 4 * limits.nspec, 4),
    "gd_speculate": _fixed(10, 2, 2),
    "gd_commit_speculation": _kept,
    "gd_discard_speculation": _fixed(60, 12, 8),
    "gd_ask_signal": _fixed(16, 2, 2),
    "gd_send_signals": _fixed(40 + 40 * _SIGNALS, 8, 8, calls=2 + _SIGNALS),
    "gd_chill": _fixed(_CHILL, _CHILL, _CHILL),
    # The costs of functions with a header of their own are not measured; it is only known that they have no loops.
    **{f"gd_{each.name}": _fixed(400, 100, 100, calls=4) for each in BUILT_INS.values() if each.header},
}
