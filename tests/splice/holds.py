# SPDX-License-Identifier: LGPL-2.1-or-later
"""Properties that must hold of any plan, checked by its result alone.

The bytes that will be in memory are followed as the processor follows them; nothing here uses the planner's own
account.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from iced_x86 import Code, Decoder, FlowControl, Instruction

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import Block, End, Function
from gilk.arch import asm
from gilk.image.elf import load
from gilk.splice.instrument import Count
from gilk.splice.plan import FunctionPlan, Site, Want
from gilk.splice.planner import PatchContext
from gilk.targets.image import analyse

_HOPS = 4
_LONGEST = 15


@lru_cache(maxsize=4)
def analysed(path: str) -> Analysis:
    return analyse(load(Path(path)))


class Layout:
    """The nature of an image's bytes, apart from any plan: blocks, instruction heads, and places where control may
    enter."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.owner: dict[int, int] = {}  # byte -> head of its instruction
        self.entries: set[int] = set()  # block starts, return addresses, inner targets
        self.strict: set[int] = set()  # bytes of functions with jumps of unknown target
        self.elsewhere: set[int] = set()  # entries that are no target of a branch of their own function
        self.sources: dict[int, set[int]] = {}  # block start -> the last instructions of blocks that lead to it
        for function in analysis.functions():
            self.entries |= function.inner
            self.elsewhere.add(function.start)
            for block in function.blocks:
                self._block(function, block)
        jumps = analysis.jumps
        foreign = {int(a) for rows in (jumps.targets, jumps.taken, jumps.pointers) for a in rows}
        self.elsewhere |= foreign | {pad for frame in analysis.image.frames for pad in frame.landing_pads}
        self.entries |= set(analysis.jumps.targets.tolist())

    def _block(self, function: Function, block: Block) -> None:
        self.entries.add(block.start)
        data = function.code[block.start - function.start : block.end - function.start]
        for instruction in Decoder(64, data, ip=block.start):
            self.owner.update(dict.fromkeys(range(instruction.ip, instruction.next_ip), instruction.ip))
            if _is_call(instruction) and not (block.how is End.NORETURN and instruction.next_ip == block.end):
                self.entries.add(instruction.next_ip)
                self.elsewhere.add(instruction.next_ip)
            if function.indirect:
                self.strict.add(instruction.ip)
        for successor in block.successors:
            self.sources.setdefault(successor, set()).add(instruction.ip)
            if block.how is End.TABLE:
                self.elsewhere.add(successor)


@lru_cache(maxsize=2)
def layout(path: str) -> Layout:
    return Layout(analysed(path))


def _is_call(instruction: Instruction) -> bool:
    direct = instruction.flow_control == FlowControl.CALL and instruction.code in (Code.CALL_REL32_64, Code.CALL_REL16)
    return direct or instruction.flow_control == FlowControl.INDIRECT_CALL


class Memory:
    """The image with all sites written, at run-time addresses."""

    def __init__(self, ground: PatchContext, plans: Iterable[FunctionPlan]) -> None:
        self.ground = ground
        self.changed: dict[int, int] = {}
        self.patches: dict[int, bytes] = {}
        for plan in plans:
            for site in plan.sites:
                self.changed.update({site.address + i: value for i, value in enumerate(site.new)})
            self.patches.update({patch.address: patch.data for patch in plan.patches})

    def read(self, address: int, size: int) -> bytes:
        image = self.ground.analysis.image.read(address - self.ground.bias, size)
        return bytes(self.changed.get(address + i, value) for i, value in enumerate(image))

    def decode(self, address: int) -> Instruction:
        data = self.patches[address] if address in self.patches else self.read(address, _LONGEST)
        return Decoder(64, data, ip=address).decode()

    def _target(self, address: int) -> int:
        instruction = self.decode(address)
        if instruction.is_ip_rel_memory_operand and address in self.patches:
            at = instruction.ip_rel_memory_address - address
            return int.from_bytes(self.patches[address][at : at + 8], "little")
        assert instruction.near_branch_target, f"{address:#x} holds {instruction}"
        return int(instruction.near_branch_target)

    def lead(self, address: int) -> list[int]:
        """Every address that control passes from the splice at ``address`` to a patch, which is the last."""
        way = [address]
        arena = self.ground.arena
        while len(way) <= _HOPS:
            way.append(self._target(way[-1]))
            if arena.holds(way[-1]):
                return way
        raise AssertionError(f"{address:#x} does not get to a patch")


def violations(path: str, ground: PatchContext, made: list[tuple[list[Want], FunctionPlan]]) -> list[str]:
    """Descriptions of all that is wrong with the plans in force together."""
    plans = [plan for _, plan in made]
    memory = Memory(ground, plans)
    found = list(_overlaps(plans))
    for wants, plan in made:
        found += _accounts(wants, plan)
        found += _instruments(ground, wants, plan)
        found += _bytes(ground, plan)
        found += _leads(memory, plan)
        found += _windows(layout(path), ground.bias, plan)
    return found


def _overlaps(plans: list[FunctionPlan]) -> Iterator[str]:
    count = Counter(site.address + i for plan in plans for site in plan.sites for i in range(len(site.new)))
    yield from (f"{address:#x} is written {n} times" for address, n in count.items() if n > 1)


def _accounts(wants: list[Want], plan: FunctionPlan) -> Iterator[str]:
    both = plan.tactics.keys() & plan.refusals.keys()
    if both or plan.tactics.keys() | plan.refusals.keys() != {want.key for want in wants}:
        yield f"{plan.name}: wants are not accounted for once each"


def _instruments(ground: PatchContext, wants: list[Want], plan: FunctionPlan) -> Iterator[str]:
    code = b"".join(patch.data for patch in plan.patches)
    for want in wants:
        if not isinstance(want.instrument, Count):
            continue
        times = code.count(asm.inc_gs(ground.host.counters + 8 * want.instrument.slot))
        if (want.key in plan.tactics and times != 1) or (want.key in plan.refusals and times):
            yield f"{plan.name}: {want} is in the patches {times} times"


def _bytes(ground: PatchContext, plan: FunctionPlan) -> Iterator[str]:
    for site in plan.sites:
        original = ground.analysis.image.read(site.address - ground.bias, len(site.new))
        if site.old != original or len(site.old) != len(site.new):
            yield f"{plan.name}: {site} expects other bytes than the image has"


def _leads(memory: Memory, plan: FunctionPlan) -> Iterator[str]:
    """Each site must lead to its equivalent patch, and a bounce to the same as the site that jumps to it."""
    equal = {(e.patch, e.original) for e in plan.equivalences if e.before}
    stands_for = {e.patch: e.original for e in plan.equivalences}
    starts = {patch.address for patch in plan.patches}
    for site in plan.sites:
        way = memory.lead(site.address)
        original = stands_for.get(site.address, site.address)
        if way[-1] not in starts:
            yield f"{plan.name}: {site.address:#x} leads amid a patch"
        called = memory.decode(site.address).flow_control == FlowControl.CALL
        if not called and (way[-1], original) not in equal:
            yield f"{plan.name}: {site.address:#x} leads to a patch for another place"


def _windows(layout: Layout, bias: int, plan: FunctionPlan) -> Iterator[str]:
    displaced = set(plan.displaced)
    bounces = {e.patch for e in plan.equivalences}
    heads = {e.original for e in plan.equivalences if e.before}
    starts = {site.address for site in plan.sites} - bounces
    for site in plan.sites:
        yield from _window(layout, bias, site, displaced | starts, bounces)
    for address in displaced:
        if address - bias in layout.entries:
            yield from _copied(layout, bias, plan, address, displaced | starts)
        if address not in heads:
            yield f"{plan.name}: {address:#x} is displaced, but nowhere in a patch"


def _copied(layout: Layout, bias: int, plan: FunctionPlan, address: int, moved: set[int]) -> Iterator[str]:
    """A block without a splice must be reached from patches only."""
    if address - bias in layout.elsewhere:
        yield f"{plan.name}: {address:#x} is displaced, but entered from elsewhere"
    for source in layout.sources.get(address - bias, ()):
        if source + bias not in moved:
            yield f"{plan.name}: {address:#x} is displaced, but {source + bias:#x} leads there"


def _window(layout: Layout, bias: int, site: Site, moved: set[int], bounces: set[int]) -> Iterator[str]:
    start = site.address - bias
    free = site.address in bounces
    for address in range(start, start + len(site.new)):
        head = layout.owner.get(address)
        if address in layout.entries and (free or address != start):
            yield f"{site} covers {address + bias:#x}, where control enters"
        if head is None or (head == start and not free):
            continue
        if head + bias not in moved:
            yield f"{site} covers the instruction at {head + bias:#x}, which is not displaced"
        if head in layout.strict:
            yield f"{site} covers a second instruction of a function that may be entered anywhere"
