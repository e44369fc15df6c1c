# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds the instruction at which a call of an inlined function begins in another function, and those at which it ends,
and says whether calls can be counted and timed there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from iced_x86 import FlowControl, Instruction

from gilk.analysis import stack
from gilk.analysis.analysis import Analysis
from gilk.analysis.model import Block, Function
from gilk.splice.plan import Refusal
from gilk.values import dataclass

Ranges = Sequence[tuple[int, int]]
Ways = Mapping[int, Sequence[int]]
_GOES_ON = (FlowControl.NEXT, FlowControl.CALL, FlowControl.INDIRECT_CALL)
_OUT = -1  # stands for all code that is not the function's


@dataclass(frozen=True, slots=True)
class Leaving:
    """A place at which a call of an inlined function is left: before the instruction at ``address`` of ``part``, or
    ``after`` it. ``part``: the function that contains the call, or a part of it, such as its cold one. ``next``: the
    address of the instruction that control comes to then. ``depth``: by how many bytes the stack is deeper than where
    the call begins."""

    part: Function
    address: int
    after: bool
    next: int
    depth: int


def beginning(flow: InstructionFlow, code: Ranges, entry: int | None) -> tuple[int, Refusal | None]:
    """The link-time address at which the inlined call begins, and the reason why no instrument can be there, or None.
    ``code``: the address ranges (from, to) of the inlined function's instructions; ``entry``: the address of its
    beginning, None if the compiler does not tell.
    """
    if entry is None:
        heads = {to for source, to in flow.ways if _in(code, to) and not _in(code, source)}
        if _in(code, flow.start):
            heads.add(flow.start)
        if len(heads) != 1:
            return (code[0][0] if code else flow.start), Refusal.INLINED_ENTRY
        (entry,) = heads
    if entry not in flow.instructions:
        return entry, Refusal.NO_CODE
    back = {source for source, to in flow.ways if to == entry and _in(code, source)}
    return entry, Refusal.INLINED_LOOP if back and back & _spread(flow.further, [entry]) else None


def endings(flow: InstructionFlow, code: Ranges, entry: int) -> list[Leaving] | None:
    """The places at which an inlined call is left that has begun at ``entry``, so that control comes to exactly one of
    them for each call that is left; None if there are no such places.

    A call is under way where control may still come to an instruction of the inlined function without passing the
    entry. Instructions to which control comes without passing the entry, which the compiler has moved out of the call
    or shares with other code, are not counted as the function's. The call is left on each way from where it is under
    way to where it is not.
    """
    body = flow.behind(entry, code) if entry in flow.instructions and not flow.unknown else None
    if body is None:
        return None
    under_way = (_spread(flow.before, body, entry) | {entry}) & _spread(flow.further, [entry])
    places = _places(flow, under_way, entry)
    depths = flow.depths(entry, under_way)
    if places is None or any(each not in depths for each in places):
        return None
    return [_leaving(flow, at, depths[at]) for at in places]


def _leaving(flow: InstructionFlow, at: int, depth: int) -> Leaving:
    address, after = abs(at), at < 0
    behind = int(flow.instructions[address].next_ip) if after else address
    return Leaving(flow.part_of[address], address, after, behind, depth)


def _places(flow: InstructionFlow, under_way: set[int], entry: int) -> list[int] | None:
    """The places at which control leaves the instructions ``under_way``, each the address of an instruction; negative
    for the place after it. None if there is a way out on which nothing can be put."""

    def outside(address: int) -> bool:
        return address == entry or address not in under_way

    leaving = {at: out for at in sorted(under_way) if (out := [to for to in flow.further[at] if outside(to)])}
    found: dict[int, None] = {}
    behind: set[int] = set()  # the instructions before which the call has been left
    for to in dict.fromkeys(to for out in leaving.values() for to in out):
        if to not in (entry, _OUT, flow.start) and to not in flow.pads and under_way.issuperset(flow.before[to]):
            found[to] = None
            behind.add(to)
    for at, out in leaving.items():
        rest = [to for to in out if to not in behind]
        if not rest:
            continue
        if rest != list(flow.further[at]):  # control may go on in the call
            return None
        instruction = flow.instructions[at]
        if instruction.flow_control == FlowControl.NEXT:
            if entry in rest:
                return None  # both instruments would be at one place, in the wrong order
            found[-at] = None
        elif instruction.flow_control in _GOES_ON:
            return None
        else:
            found[at] = None
    return list(found)


class InstructionFlow:
    """The ways on which control may pass between the instructions of a function, which may have several parts."""

    def __init__(self, analysis: Analysis, parts: Sequence[Function]) -> None:
        self._analysis = analysis
        self.start = parts[0].start
        self.unknown = any(part.indirect for part in parts)  # there are jumps to unknown targets
        self.pads = {block.start for part in parts for block in part.blocks if block.landing_pad}
        self.instructions: dict[int, Instruction] = {}
        self.part_of: dict[int, Function] = {}
        self.further: dict[int, list[int]] = {}
        self.before: dict[int, list[int]] = {_OUT: []}
        for part in parts:
            for block in part.blocks:
                self._add(part, block)
        #: The pairs (from, to) of instructions between which control may pass, with those that lead elsewhere.
        self.ways = [(at, to) for at, out in self.further.items() for to in out]
        for at, to in self.ways:
            self.before.setdefault(to if to in self.instructions else _OUT, []).append(at)
        for at, out in self.further.items():
            self.further[at] = [to if to in self.instructions else _OUT for to in out]
            self.before.setdefault(at, [])

    def _add(self, part: Function, block: Block) -> None:
        steps = [step.instruction for step in self._analysis.steps(part, block)]
        for instruction, behind in zip(steps, [*steps[1:], None], strict=True):
            self.instructions[instruction.ip] = instruction
            self.part_of[instruction.ip] = part
            if behind is not None:
                self.further[instruction.ip] = [behind.ip]
                continue
            out = dict.fromkeys((*block.successors, *([block.target] if block.target else ())))
            leaves = not out and instruction.flow_control == FlowControl.RETURN
            leaves = leaves or instruction.flow_control == FlowControl.INDIRECT_BRANCH
            self.further[instruction.ip] = [*out, *([_OUT] if leaves and not block.successors else ())]

    def behind(self, entry: int, code: Ranges) -> set[int] | None:
        """The instructions in ``code`` to which control comes from the function's start through ``entry`` only; None if
        an exception may lead to some of them on another way."""
        roots = [self.start]
        ours = {at for at in self._from_start if _in(code, at)} - _spread(self.further, roots, entry)
        ours.add(entry)
        apart = _spread(self.further, [*roots, *self.pads], entry)
        return None if ours & apart - {entry} else ours

    @cached_property
    def _from_start(self) -> set[int]:
        return _spread(self.further, [self.start])

    def depths(self, entry: int, under_way: set[int]) -> dict[int, int]:
        """By how many bytes the stack is deeper than at ``entry``, for each place in and behind the instructions
        ``under_way`` where that is known; a negative address stands for the place after the instruction."""
        found: dict[int, int | None] = {entry: 0}
        frames: dict[int, int | None] = {entry: None}
        todo = [entry]
        while todo:
            at = todo.pop()
            before = stack.Depth(found[at], frames[at])
            after = stack.step(before, self.instructions[at])
            found[-at] = after.stack
            for to in self.further[at]:
                if to not in found:
                    found[to], frames[to] = after
                    if to in under_way:
                        todo.append(to)
                elif to not in (entry, _OUT) and found[to] != after.stack:
                    return {}
        return {at: depth for at, depth in found.items() if depth is not None}


def _in(code: Ranges, address: int) -> bool:
    return any(low <= address < high for low, high in code)


def _spread(ways: Ways, starts: Iterable[int], barrier: int | None = None) -> set[int]:
    """The instructions that ``ways`` lead to from ``starts``, these included. ``barrier`` is not among them, nor is
    what only it leads to."""
    found = {start for start in starts if start != barrier}
    waiting = list(found)
    while waiting:
        fresh = [to for to in ways.get(waiting.pop(), ()) if to not in found and to != barrier]
        found.update(fresh)
        waiting += fresh
    return found
