# SPDX-License-Identifier: LGPL-2.1-or-later
"""Recursive traversal: finds the instructions of a function that are reached, and how control leaves each run
of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import NamedTuple

from iced_x86 import Instruction

from gilk.analysis.model import End
from gilk.analysis.streams import InstructionStream, main_stream, side_stream
from gilk.arch import decode as x86
from gilk.values import dataclass


class Way(NamedTuple):
    """How control goes on after a transfer. ``how`` is None if it just continues behind it: a call that returns."""

    end: int  # address after the instruction
    how: End | None
    inside: tuple[int, ...]  # addresses in the function that may come next
    outside: int = 0  # a direct target elsewhere


@dataclass(frozen=True)
class Surroundings:
    """The facts about the rest of the image that a traversal needs."""

    returns: Callable[[Instruction], bool]  # whether this call returns
    is_entry: Callable[[int], bool]  # whether a jump there is a tail call
    detours: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # Image.detours; below: returns, dispatchers
    returning: frozenset[int] = frozenset()
    dispatchers: frozenset[int] = frozenset()


class Traversal:
    """The traversal of one function. `add` extends it; `streams`, `ways` and `inner` are its results.

    ``resolved`` has, for the indirect jumps resolved so far, how they end, their targets in this function, and a target
    outside of it or 0.
    """

    def __init__(self, code: bytes, start: int, around: Surroundings) -> None:
        self.code = code
        self.start = start
        self.end = start + len(code)
        self.around = around
        self.streams = [main_stream(code, start, around.detours)]
        self.ways: dict[int, Way] = {}  # by address of the transfer; by -end for the end of a stream
        self.leaders: set[int] = set()  # every address inside that control transfers lead to
        self.inner: set[int] = set()  # the leaders that lie amid a reached instruction
        self.resolved: dict[int, tuple[End, tuple[int, ...], int]] = {}
        self.foreign: set[int] = set()  # the targets of indirect jumps in other spans
        self.calls: dict[int, int] = {}

    @property
    def main(self) -> InstructionStream:
        return self.streams[0]

    def add(self, roots: Iterable[int]) -> None:
        """Traverse all code from ``roots`` that is not reached yet.

        Addresses that are no heads of the linear decoding are dealt with last, so that the likelier decoding of a byte
        comes first.
        """
        ready: list[int] = list(roots)
        waiting: list[int] = []
        self.leaders.update(ready)
        while ready or waiting:
            if not ready:
                ready += self._out_of_step(waiting.pop())
                continue
            address = ready.pop()
            stream = self.stream_at(address)
            if stream is None:
                waiting.append(address)
                continue
            control = stream.reach(address)
            if control is not None:
                ready += self._leave(stream, control)

    def stream_at(self, address: int) -> InstructionStream | None:
        """The stream that has an instruction at ``address``; None if none has."""
        return next((stream for stream in self.streams if address in stream.index), None)

    def resolve(self, site: int, how: End, targets: tuple[int, ...], outside: tuple[int, ...]) -> bool:
        """Set the targets of the indirect jump at ``site``, and traverse them; returns whether that changed
        anything.
        """
        resolution = (how, targets, outside[0] if outside else 0)
        if resolution == self.ways[site][1:]:
            return False
        self.foreign.update(outside)
        self.resolved[site] = resolution
        self.ways[site] = Way(self.ways[site].end, *resolution)
        self.add(targets)
        return True

    def _out_of_step(self, address: int) -> list[int]:
        """Open a stream at ``address``, unless it is amid a reached instruction; returns the addresses to go
        on with.
        """
        if self.stream_at(address) is not None:
            return [address]
        stream = side_stream(self.main, self.code, address, self.around.detours)
        if self.main.reached(self.main.head_before(address)):
            self.inner.add(address)
            return [stream.end] if stream.end < self.end else []
        self.streams.append(stream)
        return [address]

    def _leave(self, stream: InstructionStream, control: int) -> list[int]:
        """Note how control leaves at ``control``; returns the addresses in the function to which it goes on."""
        if control == stream.end:  # runs into the main stream, or off the function's end
            inside = (control,) if control < self.end else ()
            way = self.ways[-control] = Way(control, End.FALL, inside, 0 if inside else control)
        else:
            way = self.ways[control] = self._way(stream.at(control))
        if way.how is not None:
            self.leaders.update(way.inside)
        return list(way.inside)

    def _way(self, control: Instruction) -> Way:
        way, detours = self._plain_way(control), self.around.detours.get(control.ip)
        if not detours:
            return way
        inside = [*way.inside, *(target for target in detours if self.start <= target < self.end)]
        outside = [target for target in (way.outside, *detours) if target and not self.start <= target < self.end]
        return Way(way.end, End.BRANCH, tuple(dict.fromkeys(inside)), outside[0] if outside else 0)

    def _plain_way(self, control: Instruction) -> Way:
        """The way that the bytes of an instruction tell, without detours."""
        flow, after = control.flow_control, control.next_ip
        if flow == x86.NEXT and not x86.stops(control):
            return Way(after, None, (after,) if after < self.end else ())
        if flow in (x86.CALL, x86.CALL_INDIRECT, x86.INTERRUPT):
            return self._call(control, after)
        if flow == x86.RETURN:
            return Way(after, End.RETURN, ())
        if flow == x86.JUMP_INDIRECT:
            return Way(after, *self.resolved.get(control.ip, (End.INDIRECT, (), 0)))
        if x86.stops(control):
            return Way(after, End.STOP, ())
        return self._branch(control.near_branch_target, after, conditional=flow != x86.JUMP)

    def _call(self, control: Instruction, after: int) -> Way:
        if x86.is_trap(control):
            return Way(after, End.STOP, ())
        if x86.is_direct_call(control):
            target = control.near_branch_target
            self.calls[control.ip] = 0 if target in self.around.dispatchers else target
        elif control.flow_control == x86.CALL_INDIRECT:
            self.calls[control.ip] = 0
        if not self.around.returns(control):
            return Way(after, End.NORETURN, ())
        return Way(after, None, (after,)) if after < self.end else Way(after, End.NORETURN, ())

    def _branch(self, target: int, after: int, conditional: bool) -> Way:
        inside = self.start <= target < self.end
        targets = (target,) if inside else ()
        outside = 0 if inside else target
        if conditional:
            falls = (after,) if after < self.end and after not in targets else ()
            return Way(after, End.BRANCH, falls + targets, outside)
        if target in self.around.returning:
            return Way(after, End.RETURN, ())
        if target in self.around.dispatchers:
            return Way(after, End.TAIL_INDIRECT, ())
        tail = not inside and self.around.is_entry(target)
        return Way(after, End.TAIL if tail else End.JUMP, targets, outside)
