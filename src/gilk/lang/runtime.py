# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions of native/runtime/d that printed code calls, and what each of them does: one row for each function.

tests/lang/test_runtime.py follows the calls in that C code and compares them with the rows. A module that needs to know
what printed code does, or which state must be saved around it, asks this table and never searches the text of the code
for names.
"""

from __future__ import annotations

from enum import Flag, auto

from gilk.lang.variables import BUILT_INS
from gilk.values import dataclass


class Does(Flag):
    """The needs and effects of a function on the machine, besides computing."""

    NOTHING = 0
    READS = auto()  # reads memory of the process, which may not be mapped
    WRITES = auto()  # writes memory of the process, which may not be mapped
    REGISTERS = auto()  # looks at the registers that the thread has at the probe
    WALKS = auto()  # unwinds the thread's stack, by its unwind tables
    CALLS = auto()  # makes system calls as the thread: the process's own seccomp filter may kill it for them
    SIGNALS = auto()  # asks for signals to the thread, which are sent when all clauses have run
    SCRATCH = auto()  # takes scratch memory, which the clause's function gives back at its end
    FAILS = auto()  # may end the clause's function by a fault
    NAMES = auto()  # needs the names of the probe
    ERROR = auto()  # needs errno
    BEGINS = auto()  # needs the address at which the function begins that contains the place
    SPECULATES = auto()  # records that follow it may be discarded later
    DESTROYS = auto()  # changes the process: allowed in destructive programs only


@dataclass(frozen=True, slots=True)
class RuntimeFunction:
    """A function of the runtime. ``cold``: it is declared GD_COLD and keeps all registers except those in
    ``result``.
    """

    name: str
    does: Does
    cold: bool = False
    result: tuple[str, ...] = ()


_ROWS = """
    gd_begin
    gd_active
    gd_end
    gd_exit
    gd_report
    gd_fail                 FAILS
    gd_global
    gd_reserve
    gd_commit
    gd_discard

    gd_count
    gd_sum
    gd_min
    gd_max
    gd_avg
    gd_stddev
    gd_quantize
    gd_lquantize
    gd_llquantize

    gd_dynamic_load
    gd_dynamic_store
    gd_dynamic_delete

    gd_alloca               SCRATCH FAILS
    gd_asked                SCRATCH FAILS
    gd_zero
    gd_bcopy
    gd_put_string
    gd_put_symbol
    gd_load                 READS CALLS FAILS
    gd_copyin_string        READS CALLS FAILS
    gd_copy                 READS CALLS FAILS
    gd_copy_string          FAILS
    gd_assign               FAILS
    gd_store                WRITES CALLS FAILS
    gd_store_string         WRITES CALLS FAILS

    gd_timestamp
    gd_walltimestamp
    gd_vtimestamp           CALLS
    gd_environment
    gd_execname
    gd_probe_text           NAMES
    gd_cpu
    gd_register             REGISTERS FAILS
    gd_cwd                  CALLS
    gd_fdpath               CALLS
    gd_fdoffset             CALLS
    gd_fdflags              CALLS
    gd_fdmount              CALLS
    gd_threadname           CALLS
    gd_threadnice           CALLS
    gd_threadpriority       CALLS

    gd_put_ustack           REGISTERS READS WALKS CALLS SCRATCH FAILS
    gd_take_ustack          REGISTERS READS WALKS CALLS SCRATCH FAILS
    gd_ustackdepth          REGISTERS READS WALKS CALLS SCRATCH FAILS
    gd_ucaller              REGISTERS READS WALKS CALLS SCRATCH FAILS

    gd_strlen
    gd_character            FAILS
    gd_after                FAILS
    gd_strcmp
    gd_compare
    gd_text
    gd_put_text
    gd_strjoin
    gd_substr
    gd_basename
    gd_dirname
    gd_cleanpath
    gd_lltostr              FAILS
    gd_strtoll              FAILS
    gd_strchr
    gd_strrchr
    gd_strstr
    gd_strtok
    gd_strtok_kept
    gd_tolower
    gd_toupper
    gd_index
    gd_rindex
    gd_inet_ntoa
    gd_inet_ntoa6
    gd_inet_ntoa6_short
    gd_inet_ntop            READS CALLS FAILS
    gd_link_ntop            READS CALLS FAILS
    gd_is_set
    gd_rand

    gd_speculation
    gd_speculate            SPECULATES
    gd_commit_speculation   FAILS
    gd_discard_speculation  FAILS
    gd_ask_signal           SIGNALS FAILS
    gd_send_signals         CALLS
    gd_chill                FAILS
"""
#: Cold functions, with the registers that hold their results. Printed code does not call them; functions that it calls
#: do.
_COLD = {
    "gd_tell": (),
    "gd_settle_speculative": (),
    "gd_find_keyless": ("rax",),
    "gd_fill_slot": ("rax", "rdx"),
}


def _function(row: str) -> RuntimeFunction:
    name, *does = row.split()
    found = Does.NOTHING
    for each in does:
        found |= Does[each]
    return RuntimeFunction(name, found)


FUNCTIONS = {each.name: each for each in (_function(row) for row in _ROWS.strip().splitlines() if row.strip())}
FUNCTIONS |= {name: RuntimeFunction(name, Does.NOTHING, True, result) for name, result in _COLD.items()}
FUNCTIONS |= {
    row.functions[-1]: _function(f"{row.functions[-1]} {' '.join(row.does)}")
    for row in BUILT_INS.values()
    if row.header
}
