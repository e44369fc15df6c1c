#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What does it cost to record the time at every block of the functions behind fork?

    python3 examples/kernel/fork_study.py [DIRECTORY]

In a virtual machine with a stock kernel, in which every instruction takes one tick of the time stamp counter, pulsar.c
forks and reads the counter before and after each fork (GILK, section 4.2): without an instrument, with one before each
block of kernel_clone and copy_process, and with one after each. The additional cost of a fork that the program
measures, divided by the number of records that the fork made, is the cost of an instrument. As in the paper, the
cheapest forks are compared, for others have found a table full or a page missing. The records tell the same cost block
by block: the time between two of them is that of the block's instructions, which can be counted in its code, and of the
instrument.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from iced_x86 import Decoder, FlowControl, Instruction

sys.path.insert(0, str(Path(__file__).parent))
from studying import compiled, directory, figure, save, text_of

import gilk
from gilk import Kernel, Place

FUNCTIONS = ("kernel_clone", "copy_process")
PHASES = {"none": "", "before each block": "blocks", "after each block": "blocks-post"}
CALLS = (FlowControl.CALL, FlowControl.INDIRECT_CALL)


@dataclass(frozen=True)
class Phase:
    """The measurements of a phase. ``ticks`` are those of each fork, as the program measured them; ``way`` has the
    points that all forks passed, with times in ns; ``costs`` has the cost of the instrument of each block that makes
    no call, by the block's point."""

    name: str
    points: int
    tactics: dict[str, int]
    ticks: tuple[int, ...]
    way: tuple[tuple[str, int], ...]
    costs: dict[str, int]
    dropped: int

    @property
    def records(self) -> list[int]:
        """The number of records that each fork has made."""
        first = [n for n, (point, _) in enumerate(self.way) if point == self.way[0][0]]
        return [b - a for a, b in pairwise([*first, len(self.way)])]

    @property
    def baseline(self) -> int:
        """The instructions of the cheapest fork."""
        return min(self.ticks)

    def cost(self, without: Phase) -> float:
        """The instructions that the cheapest fork takes beyond the cheapest without instruments, for each of its
        records."""
        return (self.baseline - without.baseline) / self.records[self.ticks.index(self.baseline)]


def study(kernel: Kernel, program: Path, bursts: int, forks: int) -> tuple[list[Phase], bool]:
    """Each phase, and whether the kernel's text was afterwards the same as before."""
    before = text_of(kernel, FUNCTIONS)
    # Always at the same addresses: fork copies page tables, and their number depends on the addresses.
    command = ["setarch", "-R", str(program), str(bursts), str(forks), "10", "ticks"]
    phases = [observe(kernel, name, where, command) for name, where in PHASES.items()]
    return phases, text_of(kernel, FUNCTIONS) == before


def observe(kernel: Kernel, name: str, where: str, command: list[str]) -> Phase:
    forked(kernel, command)  # this run absorbs what the phase before has left to do, such as freeing memory
    places = [p for each in FUNCTIONS for p in kernel.function(each).points(where)] if where else []
    if not places:
        _, ticks = forked(kernel, command)
        return Phase(name, 0, {}, ticks, (), {}, 0)
    with kernel.session(ring=8 << 20) as session:
        session.insert(places, gilk.stamp)
        tactics = session.tactics()
        task, ticks = forked(kernel, command)
        rows = [row for row in session.close().sort_by("time").to_pylist() if row["tid"] == task]
        dropped = session.drain.drops()
    way = tuple((row["point"], row["time"]) for row in rows)
    return Phase(name, len(places), tactics, ticks, way, dict(costs(kernel, places, way)), dropped)


def forked(kernel: Kernel, command: list[str]) -> tuple[int, tuple[int, ...]]:
    """Run the program. Returns its process number, and the ticks of each fork."""
    status, out, said = kernel.target.link.run(command)
    if status:
        raise RuntimeError(f"status {status}: {said.decode(errors='replace')}")
    task, *ticks = map(int, out.split())
    return task, tuple(ticks)


def costs(kernel: Kernel, places: Iterable[Place], way: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Pairs of a point and the cost of its instrument: the time until the next point, less the instructions between.
    Points followed by a call, or by something else than a next block, are left out."""
    inside = {place.point.label: Position.of(kernel, place) for place in places}
    took: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for (point, start), (following, end) in pairwise(way):
        here, there = inside[point], inside[following]
        if there.start in here.successors and not (here.calls_after or there.calls_before):
            took[point][end - start - (here.after + there.before)] += 1
    for point, times in took.items():
        yield point, times.most_common(1)[0][0]


@dataclass(frozen=True)
class Position:
    """The place of a point in its block: the number of instructions before and after it, and whether they include
    calls."""

    start: int
    successors: tuple[int, ...]
    before: int
    after: int
    calls_before: bool
    calls_after: bool

    @classmethod
    def of(cls, kernel: Kernel, place: Place) -> Position:
        block = next(b for b in place.function.blocks if b.start <= place.point.address < b.end)
        (code,) = kernel.target.link.read_core([(block.start, block.end - block.start)])
        every = list(Decoder(64, code, ip=block.start))
        at = sum(each.ip < place.point.address for each in every) + place.point.after
        # ftrace's nop is at the function's start, and the point lies behind it.
        at += block.start == place.function.start and at == 0 and every[0].len == 5
        return cls(block.start, block.successors, at, len(every) - at, unclear(every[:at]), unclear(every[at:]))


def unclear(instructions: list[Instruction]) -> bool:
    """Whether more instructions may run than there are here: one of them is a call, or repeats."""
    return any(each.flow_control in CALLS or each.has_rep_prefix or each.has_repne_prefix for each in instructions)


def report(phases: list[Phase], restored: bool) -> None:
    print(f"\n{'instruments':20}{'points':>8}{'records a fork':>16}{'instructions':>14}{'more':>8}{'a record':>10}")
    for phase in phases:
        records = median(phase.records) if phase.way else 0
        line = f"{phase.name:20}{phase.points:8}{records:16.0f}{phase.baseline:14}"
        print(line + (f"{phase.baseline - phases[0].baseline:8}{phase.cost(phases[0]):10.1f}" if phase.way else ""))
    for phase in phases[1:]:
        tactics = ", ".join(f"{tactic} {number}" for tactic, number in phase.tactics.items())
        print(f"\n{phase.name}: {tactics}; {phase.dropped} records dropped.")
        print(f"Instructions of the instrument at each of {len(phase.costs)} blocks that make no call:")
        for cost, number in sorted(Counter(phase.costs.values()).items()):
            print(f"{cost:6} {number:4} {'#' * number}")
    print(f"\nThe kernel's text is {'what it was, byte for byte' if restored else 'NOT what it was'}.")


def draw(phases: list[Phase], path: Path) -> None:
    """Draw each fork in each phase, and the cost of an instrument at each block."""
    made, (forks, blocks) = figure(10, 4, columns=2)
    for phase, mark in zip(phases, "ox+", strict=True):
        name = phase.name if phase.way else "no instruments"
        forks.plot(phase.ticks, mark, markersize=4, fillstyle="none", label=name)
        if phase.costs:
            blocks.plot(sorted(phase.costs.values()), mark, markersize=4, label=name)
    forks.set(xlabel="number of the fork", ylabel="instructions", title="What a fork costs")
    forks.set_ylim(0.96 * min(phase.baseline for phase in phases), 1.04 * max(median(p.ticks) for p in phases))
    blocks.set(xlabel="blocks without calls, cheapest first", ylabel="instructions", title="What an instrument costs")
    blocks.set_ylim(bottom=0)
    for axes in (forks, blocks):
        axes.legend(loc="lower right", fontsize="small")
        axes.grid(True, linewidth=0.3)
    save(made, path)


def main() -> int:
    place = directory(sys.argv)
    with tempfile.TemporaryDirectory() as name:
        program = compiled("pulsar", Path(name))
        print("starting a virtual machine that counts instructions, and reading its kernel's code", flush=True)
        with gilk.kernel(gilk.lab.Machine(icount=True)) as kernel:
            phases, restored = study(kernel, program, 8, 32)
    report(phases, restored)
    draw(phases, place / "fork.png")
    return 0 if restored else 1


if __name__ == "__main__":
    sys.exit(main())
