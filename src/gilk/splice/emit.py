# SPDX-License-Identifier: LGPL-2.1-or-later
"""Emits a patch: the displaced instructions with pre- and post-instruments (gilk-extended.txt 3.3).

Instructions are relocated in order, with the instruments of each place in between; the last jump goes back behind them.
A post instrument of a block that ends with a branch stands before that branch.
"""

from __future__ import annotations

from iced_x86 import FlowControl

from gilk.arch.asm import JMP32
from gilk.image.model import Image
from gilk.splice.access import is_around
from gilk.splice.access import last as access_last
from gilk.splice.advice import last as advice_last
from gilk.splice.code import CodeBuilder, PatchCode
from gilk.splice.host import Context, Host
from gilk.splice.onward import in_order
from gilk.splice.plan import Want
from gilk.splice.relocate import relocate
from gilk.splice.segments import Segment

RETURN_ADDRESS = 8
_NEXT = FlowControl.NEXT
_JBE = b"\x0f\x86"


def emit_patch(segment: Segment, first: int, last: int, image: Image, bias: int, host: Host) -> PatchCode:
    """The patch for the segment's steps ``first`` to ``last``, which are known to be relocatable."""
    builder = CodeBuilder()
    heads = segment.heads
    start = heads[first]
    code = image.read(start, heads[last + 1] - start)
    data, marks = builder.data, builder.marks
    for index in range(first, last + 1):
        step, ip = segment.steps[index], heads[index]
        address = ip + bias
        marks.append((len(data), address, True))
        if index in segment.before:
            wants = segment.before[index]
            emit_instruments(builder, host, wants, step.live, address)
            if any(is_around(want.instrument) for want in wants):
                continue
        marks.append((len(data), address, False))
        instruction = step.instruction
        raw = code[ip - start : heads[index + 1] - start]
        if instruction.flow_control != _NEXT or instruction.is_ip_rel_memory_operand:
            relocate(builder, instruction, raw, bias)
        else:
            data += raw
    if last == len(segment.steps) - 1:
        _leave_at_end(builder, segment, bias, host)
    else:
        _go_on(builder, heads[last + 1] + bias)
    return builder.finish()


def _leave_at_end(builder: CodeBuilder, segment: Segment, bias: int, host: Host) -> None:
    if segment.closed or segment.calls:
        return
    end = segment.end + bias
    if segment.after:
        builder.mark(end, False)
        behind = builder.label()
        if segment.checks:
            builder.local(_JBE, behind)  # no call yet: there is no room on the stack, and the function begins again
        emit_instruments(builder, host, segment.after, segment.live_after, end)
        builder.place(behind)
    _go_on(builder, end)


def _go_on(builder: CodeBuilder, address: int) -> None:
    builder.mark(address, True)
    builder.external(JMP32, address, jump=True)


def emit_instruments(
    builder: CodeBuilder, host: Host, wants: list[Want], live: int, address: int, pushed: int = 0
) -> None:
    """Emit the instruments one after another; each preserves the registers that a later one reads, even those that are
    dead to the program.
    """
    instruments = in_order([want.instrument for want in wants if want.instrument is not None])
    instruments = access_last(advice_last(instruments))
    lives = []
    live |= host.assume_live
    for instrument in reversed(instruments):
        lives.append(live)
        live |= instrument.reads
    for instrument in instruments:
        instrument.emit(builder, host, Context(lives.pop(), address, pushed))
