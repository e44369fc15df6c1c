# SPDX-License-Identifier: LGPL-2.1-or-later
"""The state of the machine where a probe is: what providers make the arguments of its events of.

Leaves of lang/ir.py. They say what is wanted, not where a host has it: how arguments are fetched is the business of
whoever prints code for that host. No function has these in it, but what fetches its arguments (ir.Given).
"""

from __future__ import annotations

from typing import TypeAlias

from gilk.lang.types import INT, UINT, UINT64, Integer
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Reg:
    """A register, all 64 bits of it, by its name: ``rdi``."""

    name: str
    type: Integer = UINT64


@dataclass(frozen=True, slots=True)
class StackWord:
    """A word of the stack; number 0 is the one that the stack pointer points to. 0 where there is no memory."""

    number: int
    type: Integer = UINT64


@dataclass(frozen=True, slots=True)
class CallArg:
    """An argument of the function that begins there, by number from 0: integers and addresses, as x86-64's ABI has
    them. From 6 on they are in memory, which may not be there: then 0.
    """

    number: int
    type: Integer = UINT64


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of the function that ends there, in 64 bits."""

    type: Integer = UINT64


@dataclass(frozen=True, slots=True)
class Start:
    """The address at which the function begins that the place lies in."""

    type: Integer = UINT64


@dataclass(frozen=True, slots=True)
class SyscallNumber:
    """The system call that is made there; ``left``: at its end, -1 where the thread was not seen at its beginning."""

    left: bool
    type: Integer = INT


@dataclass(frozen=True, slots=True)
class SyscallArg:
    """An argument of a system call, by number from 0. At the call's end it is the same, unless the caller has changed
    it meanwhile."""

    number: int
    type: Integer = UINT64


@dataclass(frozen=True, slots=True)
class SyscallResult:
    """The return value of the system call."""

    type: Integer = UINT64


@dataclass(frozen=True, slots=True)
class SyscallError:
    """The errno that it returns; 0 where it has not failed."""

    type: Integer = UINT


@dataclass(frozen=True, slots=True)
class ClockCounter:
    """The counter that time stamps are taken from, read anew each time: on one processor it never goes back."""

    type: Integer = UINT64


@dataclass(frozen=True, slots=True)
class ProcessId:
    """The process of the thread that fires the probe: asked again after a fork."""

    type: Integer = INT


@dataclass(frozen=True, slots=True)
class ThreadId:
    """As ProcessId."""

    type: Integer = INT


Machine: TypeAlias = (
    Reg | StackWord | CallArg | CallResult | Start | SyscallNumber | SyscallArg | SyscallResult | SyscallError
    | ClockCounter | ProcessId | ThreadId
)  # fmt: skip
