# SPDX-License-Identifier: LGPL-2.1-or-later
"""Segments: the stretches of a block that can be moved as a whole.

A frame sleeping in a callee returns to the instruction after the call, so the code at that address must stay as it is.
A segment therefore runs from a block's start or from behind a call, up to and including the next call, the terminator,
or the block's end. In a target with many instructions that must stay what and where they are, each of those is a
segment of its own, so that its neighbours can move.
"""

from __future__ import annotations

import bisect
from dataclasses import field

from iced_x86 import FlowControl, OpKind

from gilk.analysis.model import Block, End, LiveInstruction
from gilk.analysis.stack_check import StackCheck
from gilk.arch.asm import CALL_SIZE, JUMP_SIZE
from gilk.splice.plan import Want
from gilk.splice.relocate import why_not
from gilk.values import dataclass

#: The ends of blocks after which control never goes on to the next byte.
CLOSED = frozenset((End.JUMP, End.TAIL, End.TABLE, End.INDIRECT, End.TAIL_INDIRECT, End.RETURN, End.NORETURN, End.STOP))
#: The ends of blocks behind which padding may be used: not behind a call, which may come back after all.
PADDED = CLOSED - {End.NORETURN}
_NEXT, _CALL, _CALL_INDIRECT = FlowControl.NEXT, FlowControl.CALL, FlowControl.INDIRECT_CALL


@dataclass(slots=True)
class Segment:
    """A stretch of a block: its instructions ``steps``, with the wants ``before`` each of them, by index, and ``after``
    the last.

    ``heads`` are the addresses of the steps, and ``end``. ``room`` is the first byte behind the segment that must not
    be overwritten: ``end``, or more if padding follows. ``fast`` is the index of the first step that cannot be moved,
    the number of steps if all can. ``checks``: the last step is the comparison of a check for stack (see
    analysis/stack_check.py), and the wants ``after`` it are for calls that pass the check.
    """

    steps: tuple[LiveInstruction, ...]
    heads: list[int]
    calls: bool  # the last step is a call that returns to ``end``
    closed: bool  # control never reaches ``end`` by falling through
    room: int
    fast: int
    reason: str = ""  # why step ``fast`` cannot be moved
    live_after: int = 0
    before: dict[int, list[Want]] = field(default_factory=dict)
    after: list[Want] = field(default_factory=list)
    checks: bool = False

    @property
    def start(self) -> int:
        return self.heads[0]

    @property
    def end(self) -> int:
        return self.heads[-1]

    @property
    def wanted(self) -> bool:
        return bool(self.before or self.after)

    @property
    def first(self) -> int:
        """The index of the first step that must run in the patch."""
        return min(self.before) if self.before else len(self.steps) - 1

    @property
    def last(self) -> int:
        """The index of the last step that must run in the patch."""
        return len(self.steps) - 1 if self.after else max(self.before, default=0)

    def covering(self, end: int) -> int:
        """The index of the step that holds the byte before ``end``, or that of the last step if the byte is padding."""
        return min(bisect.bisect_left(self.heads, end, 1) - 1, len(self.heads) - 2)

    @property
    def wants(self) -> list[Want]:
        return [w for group in self.before.values() for w in group] + self.after


def is_call(step: LiveInstruction) -> bool:
    """Whether the step is a near call; iced-x86 gives syscall and the like the same flow."""
    flow = step.instruction.flow_control
    if flow == _CALL_INDIRECT:
        return True
    return bool(flow == _CALL and step.instruction.op0_kind == OpKind.NEAR_BRANCH64)


def segments_of(
    block: Block,
    steps: tuple[LiveInstruction, ...],
    room: int,
    immovable: dict[int, str],
    around: bool = False,
    check: StackCheck | None = None,
) -> list[Segment]:
    """Cut a block behind its calls, and if ``around`` also before and behind instructions that cannot be moved; and
    behind the comparison of the function's check for stack.

    ``room`` is the end of the bytes behind the block that may be overwritten; ``immovable`` has the addresses of
    instructions that are known not to run elsewhere, with the reason.
    """
    instructions = [step.instruction for step in steps]
    heads = [instruction.ip for instruction in instructions]
    last = len(steps) - 1
    closed = block.how in CLOSED
    transfers = [i for i, instruction in enumerate(instructions) if instruction.flow_control != _NEXT]
    fixed = {i: reason for i in transfers if (reason := why_not(instructions[i]))}
    if immovable:
        fixed.update({i: immovable[head] for i, head in enumerate(heads) if head in immovable})
    heads.append(block.end)
    cuts = [i for i in transfers if i != last and is_call(steps[i])]
    if around and fixed:
        cuts = sorted({i for i in (*cuts, *fixed, *(i - 1 for i in fixed)) if 0 <= i < last})
    compared = heads.index(check.compare) if check is not None and check.compare in heads else -1
    if compared >= 0:
        cuts = sorted({*cuts, compared})
    result: list[Segment] = []
    begin = 0
    for index in (*cuts, last):
        behind = index + 1
        final = index == last
        whole = begin == 0 and final
        segment = Segment(
            steps if whole else steps[begin:behind],
            heads if whole else heads[begin : behind + 1],
            is_call(steps[index]) and not (final and closed),
            final and closed,
            max(room, block.end) if final and closed else heads[behind],
            behind - begin,
        )
        segment.checks = index == compared
        if fixed:
            _fix(segment, {i - begin: reason for i, reason in fixed.items() if begin <= i <= index})
        result.append(segment)
        begin = behind
    return result


def _fix(segment: Segment, fixed: dict[int, str]) -> None:
    if fixed:
        segment.fast = min(fixed)
        segment.reason = fixed[segment.fast]


def place(segments: list[Segment], want: Want, live_after: int) -> bool:
    """Hand a want to its segment among those of its block; False if there is no such place.

    A place behind an instruction is the place before the next one. There is none behind a jump or a return, and the
    place behind a block's last call is not in the block any more. If an instruction cannot be moved, the place before
    it is behind the instruction before it.
    """
    for number, segment in enumerate(segments):
        if not segment.start <= want.address < segment.end:
            continue
        if want.address not in segment.heads:
            return False
        index = segment.heads.index(want.address)
        if not want.after:
            _place_before(segments, number, index, want)
        elif index + 1 < len(segment.steps):
            _place_before(segments, number, index + 1, want)
        elif segment.checks:
            _place_passed(segments, number, want)
        elif number + 1 < len(segments):
            _place_before(segments, number + 1, 0, want)
        elif segment.closed or segment.calls:
            return False
        else:
            return _place_behind(segment, want, live_after)
        return True
    return False


def _place_before(segments: list[Segment], number: int, index: int, want: Want) -> None:
    segment = segments[number]
    if segment.fast == index == 0 < number and not (segments[number - 1].calls or segments[number - 1].checks):
        _place_passed(segments, number - 1, want)
    else:
        segment.before.setdefault(index, []).append(want)


def _place_passed(segments: list[Segment], number: int, want: Want) -> None:
    """Hand a want to the place behind a segment that the next one follows."""
    segments[number].after.append(want)
    segments[number].live_after = segments[number + 1].steps[0].live


def _place_behind(segment: Segment, want: Want, live_after: int) -> bool:
    if segment.steps[-1].instruction.flow_control == FlowControl.CONDITIONAL_BRANCH:
        return False
    segment.after.append(want)
    segment.live_after = live_after
    return True


def split_call(segment: Segment) -> list[Segment]:
    """Give a wanted call of five bytes or more a segment of its own, since it can be spliced by a call.

    That is not done if it would leave too few bytes in front of it for a splice that is wanted there, too.
    """
    last = len(segment.steps) - 1
    if not last or last not in segment.before or segment.after or not is_call(segment.steps[last]):
        return [segment]
    at = segment.heads[last]
    if segment.end - at < CALL_SIZE or segment.fast <= last:
        return [segment]
    before = {i: w for i, w in segment.before.items() if i != last}
    if before and at - segment.heads[min(before)] < JUMP_SIZE:
        return [segment]
    head = Segment(segment.steps[:last], segment.heads[: last + 1], False, False, at, last, before=before)
    head.live_after = segment.steps[last].live
    tail = Segment(segment.steps[last:], segment.heads[last:], segment.calls, segment.closed, segment.room, 1)
    tail.before = {0: segment.before[last]}
    return [head, tail]
