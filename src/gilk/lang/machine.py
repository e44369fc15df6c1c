# SPDX-License-Identifier: LGPL-2.1-or-later
"""Expressions for the state of the machine at a probe; providers build the arguments of their events from them.

They are leaves of lang/ir.py. They say which value is wanted, not where a host keeps it: the code printer of each host
decides how to fetch it. They occur only in the expressions of a place (ir.Given), never in a function.
"""

from __future__ import annotations

from typing import TypeAlias

from gilk.lang.types import INT, UINT, UINT64, Integer
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Reg:
    """The 64 bits of the register called ``name``, such as ``rdi``."""

    name: str
    type: Integer = UINT64


@dataclass(frozen=True, slots=True)
class StackWord:
    """A word of the stack; number 0 is the word at the stack pointer. Its value is 0 if the memory cannot be read."""

    number: int
    type: Integer = UINT64


@dataclass(frozen=True, slots=True)
class CallArg:
    """An argument of the function that begins at the place, by number from 0: integers and addresses, as the x86-64 ABI
    passes them. Arguments from 6 on are in memory; their value is 0 if that cannot be read.
    """

    number: int
    type: Integer = UINT64


@dataclass(frozen=True, slots=True)
class CallResult:
    """The 64-bit result of the function that ends at the place."""

    type: Integer = UINT64


@dataclass(frozen=True, slots=True)
class Start:
    """The address at which the function begins that contains the place."""

    type: Integer = UINT64


@dataclass(frozen=True, slots=True)
class SyscallNumber:
    """The number of the system call at the place. ``left``: the place is the end of the call; the value is then -1 if
    the thread was not seen at the beginning of the call.
    """

    left: bool
    type: Integer = INT


@dataclass(frozen=True, slots=True)
class SyscallArg:
    """An argument of a system call, by number from 0. It has the same value at the call's end, unless the caller has
    changed it meanwhile.
    """

    number: int
    type: Integer = UINT64


@dataclass(frozen=True, slots=True)
class SyscallResult:
    """The return value of the system call."""

    type: Integer = UINT64


@dataclass(frozen=True, slots=True)
class SyscallError:
    """The errno that the system call returns; 0 if it has not failed."""

    type: Integer = UINT


@dataclass(frozen=True, slots=True)
class ClockCounter:
    """The counter from which time stamps are taken, read anew each time; on one processor it never goes back."""

    type: Integer = UINT64


@dataclass(frozen=True, slots=True)
class ProcessId:
    """The process ID of the thread that fires the probe; it is right in a child after a fork, too."""

    type: Integer = INT


@dataclass(frozen=True, slots=True)
class ThreadId:
    """The thread ID of the thread that fires the probe; it is right in a child after a fork, too."""

    type: Integer = INT


Machine: TypeAlias = (
    Reg | StackWord | CallArg | CallResult | Start | SyscallNumber | SyscallArg | SyscallResult | SyscallError
    | ClockCounter | ProcessId | ThreadId
)  # fmt: skip
