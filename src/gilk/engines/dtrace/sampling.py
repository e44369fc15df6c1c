# SPDX-License-Identifier: LGPL-2.1-or-later
"""Samples of the running threads when a probe of the clock fires."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator

from gilk.lang.d.probes import DProbe
from gilk.targets.base import Target
from gilk.targets.running import MOST_STACK, PC
from gilk.toolchain.dprogram import ClauseEvent


def events(process: Target, probe: DProbe, stacks: bool) -> Iterator[ClauseEvent]:
    """The events of a probe, one for each running thread; each is valid until the next, and the caller sets its time.

    ``stacks``: also copy the thread's stack, taken while it was stopped, behind the registers. Raises TargetError.
    """
    for one in process.sample(MOST_STACK if stacks else 0):
        state = ctypes.create_string_buffer(struct.pack(f"<{len(one.registers)}Q", *one.registers) + one.stack)
        event = ClauseEvent(thread=one.thread, probe=probe.number, copied=len(one.stack), regs=ctypes.addressof(state))
        event.cpu, event.pid, event.tid = one.cpu, process.pid, one.tid
        event.arg[1] = one.registers[PC]
        yield event
