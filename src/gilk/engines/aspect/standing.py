# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where the threads of a process stand just now: the addresses on the stack of each."""

from __future__ import annotations

from gilk.engines.dtrace.unwinding import Unwinding
from gilk.splice.frame import RED_ZONE
from gilk.targets.process import Process
from gilk.targets.running import RSP, Sample
from gilk.trace.d.copied_stack import CopiedStack, addresses


def stacks(process: Process) -> dict[int, tuple[int, ...]]:
    """For each thread, by its number, an address within the instruction at which each frame is, innermost first.

    A stack that cannot be walked to its end, because it is very deep or because code has no unwind tables, has the
    frames up to there. A program that has not begun has none. Raises TargetError.
    """
    samples = process.standing()
    code = Unwinding(process).code if samples else ()
    return {one.tid: tuple(addresses(_copied(one), code)) for one in samples}


def _copied(one: Sample) -> CopiedStack:
    return CopiedStack(one.registers, ((one.registers[RSP] - RED_ZONE, one.stack), *one.interrupted))
