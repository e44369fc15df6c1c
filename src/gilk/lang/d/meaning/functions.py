# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions that a D program can call: subroutines, aggregating functions and actions, one row each.

A row has a function's name and its parameters, which are named by the arguments that they take:

    int     an integer; also int64_t, size_t and other names of integer types in C, which messages use
    addr    a pointer or an integer: an address in the process
    ptr     a pointer, or 0
    in6     a pointer to a struct in6_addr, or 0
    object  a pointer to an object that only the kernel has, or 0
    mem     a pointer, or 0, or a string
    str     a string, or a pointer to characters, which are then copied from the process
    fmt     a string constant
    agg     an aggregation
    any     a value that can be recorded
    rest    any number of arguments, for a format

A parameter whose name ends in ``?`` is optional.
"""

from __future__ import annotations

from enum import Enum, auto

from gilk.lang.types import INT, INT64, STRING, UINT64, VOID, Integer, Pointer, Special, Type
from gilk.values import dataclass


class Role(Enum):
    SUBROUTINE = auto()  # has a value, for use in expressions
    ACTION = auto()  # records a datum, or asks the consumer for something
    DEED = auto()  # an action that is carried out at the probe
    AGGREGATING = auto()


@dataclass(frozen=True, slots=True)
class Callable_:
    name: str
    role: Role
    parameters: tuple[str, ...]
    type: Type = VOID
    destructive: bool = False

    @property
    def most(self) -> int | None:
        return None if self.parameters and self.parameters[-1] == "rest" else len(self.parameters)

    @property
    def least(self) -> int:
        return sum(1 for each in self.parameters if each != "rest" and not each.endswith("?"))


def _rows(role: Role, text: str, type_: Type = VOID, destructive: bool = False) -> dict[str, Callable_]:
    """Functions by name, from lines with a name and parameters."""
    rows = (line.split() for line in text.strip().splitlines())
    return {name: Callable_(name, role, tuple(parameters), type_, destructive) for name, *parameters in rows}


#: Subroutines about objects that only the kernel has.
_KERNELS = "mutex_owned mutex_type_adaptive mutex_type_spin rw_iswriter rw_read_held rw_write_held"
#: Those that a kernel's library defines, as inlines.
OF_LOCKS = frozenset(("mutex_owner", *_KERNELS.split()))
_FACTS = ("d_path", "pathof", "argumentsof")
#: Functions that are available in a kernel's clauses.
IN_A_KERNEL = frozenset(_FACTS)
#: Functions about the kernel, for which a program is refused if its clauses do not run in a kernel.
OF_THE_KERNEL = frozenset(("breakpoint", "panic", "pcap", *_FACTS, *OF_LOCKS))
_U16, _U32 = Integer("uint16_t", 2, False, 1), Integer("uint32_t", 4, False, 2)
FUNCTIONS: dict[str, Callable_] = {
    **_rows(
        Role.SUBROUTINE,
        """
        copyinstr addr size_t?
        strjoin str str
        strtok str str
        substr str int int?
        basename str
        dirname str
        cleanpath str
        lltostr int64_t int?
        strchr str char
        strrchr str char
        strstr str str
        inet_ntoa addr
        fdpath int
        threadname
        """,
        STRING,
    ),
    **_rows(Role.SUBROUTINE, "index str str int?\nrindex str str int?\nspeculation", INT),
    **_rows(Role.SUBROUTINE, "strlen str\nrand", UINT64),
    **_rows(Role.SUBROUTINE, "progenyof pid_t\nfdflags int\nfdmount int\nthreadnice\nthreadpriority", INT),
    **_rows(Role.SUBROUTINE, "alloca size_t\ncopyin addr size_t", Pointer(VOID)),
    **_rows(Role.SUBROUTINE, "bcopy mem ptr size_t\ncopyinto addr size_t ptr"),
    **_rows(Role.SUBROUTINE, "htons uint16_t\nntohs uint16_t", _U16),
    **_rows(Role.SUBROUTINE, "htonl uint32_t\nntohl uint32_t", _U32),
    **_rows(Role.SUBROUTINE, "htonll uint64_t\nntohll uint64_t", UINT64),
    **_rows(Role.SUBROUTINE, "getmajor dev_t\ngetminor dev_t", _U32),
    **_rows(Role.SUBROUTINE, "strtoll str int?\nfdoffset int", INT64),
    **_rows(Role.SUBROUTINE, "toupper str\ntolower str", STRING),
    **_rows(Role.SUBROUTINE, "inet_ntoa6 in6 int?\ninet_ntop int ptr\nlink_ntop int ptr", STRING),
    **_rows(Role.SUBROUTINE, "\n".join(f"{name} object" for name in _KERNELS.split()), INT),
    **_rows(Role.SUBROUTINE, "mutex_owner object", Pointer(VOID)),
    **_rows(Role.SUBROUTINE, "d_path ptr\npathof int ptr\nargumentsof ptr", STRING),
    **_rows(
        Role.AGGREGATING,
        """
        count
        sum any
        min any
        max any
        avg any
        stddev any
        quantize any any?
        lquantize any int32_t int32_t any? any?
        llquantize any int32_t int32_t int32_t int32_t any?
        """,
    ),
    **_rows(
        Role.ACTION,
        """
        printf fmt rest
        printa any rest
        trace any
        tracemem any size_t size_t?
        print ptr
        exit int
        clear agg
        trunc agg int64_t?
        normalize agg uint64_t
        denormalize agg
        ftruncate
        pcap ptr int
        setopt fmt fmt?
        """,
    ),
    **_rows(Role.ACTION, "system fmt rest\nfreopen fmt rest", destructive=True),
    **_rows(Role.ACTION, "stack uint32_t?", Special.STACK),
    **_rows(Role.ACTION, "ustack uint32_t? uint32_t?\njstack uint32_t? uint32_t?", Special.USTACK),
    **{
        name: Callable_(name, Role.ACTION, ("addr",), Special(symbol))
        for name, symbol in (
            *(("usym", "usym"), ("ufunc", "usym"), ("umod", "umod"), ("uaddr", "uaddr")),
            *(("sym", "sym"), ("func", "sym"), ("mod", "mod")),
        )
    },
    **_rows(Role.DEED, "speculate int\ncommit int\ndiscard int"),
    **_rows(
        Role.DEED,
        """
        stop
        raise int
        copyout mem addr size_t
        copyoutstr str addr size_t
        breakpoint
        panic
        chill int
        """,
        destructive=True,
    ),
}
