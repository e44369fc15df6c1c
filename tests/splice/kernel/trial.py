# SPDX-License-Identifier: LGPL-2.1-or-later
"""Plans for the corpus, applied as the driver would, and run beside the original code."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from gilk.analysis.model import Function
from gilk.splice import points
from gilk.splice.kernel.instrument import KernelCount
from gilk.splice.kernel.planner import plan
from gilk.splice.kernel.units import Unit, fills, units
from gilk.splice.plan import FunctionPlan, Want
from tests.oracle.relocate import GPRS
from tests.splice.kernel import corpus
from tests.splice.kernel.driver import refused, written
from tests.splice.kernel.machine import GS_BASE, PAGE, STACK_TOP, Outcome, machine

KEPT = ("rax", "rbx", "rbp", "rsp", *(f"r{n}" for n in range(12, 16)))
COUNTERS = 0x8000  # relative to GS
DATA = 0x10000000
_MOST = 40_000  # instructions, of what takes 2000 at most without a plan


@dataclass
class Trial:
    """Wants at the ``chosen`` places, each with a counter of its own."""

    chosen: Callable[[points.Point], bool]
    assume_live: int = 0
    wants: dict[int, Want] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ground = corpus.ground(self.assume_live)
        self.functions = [f for f in corpus.analysis().functions() if not corpus.THUNKS.match(f.name)]
        self.made = plan(ground, [(f, self._wants(f)) for f in self.functions]).functions
        self.units = tuple(unit for made in self.made for unit in units(made, corpus.read))

    def _wants(self, function: Function) -> list[Want]:
        found = []
        for point in filter(self.chosen, _all_points(function)):
            key = len(self.wants) + 1
            self.wants[key] = Want(point.address, point.after, KernelCount(COUNTERS + 8 * key), key)
            found.append(self.wants[key])
        return found

    @cached_property
    def tactics(self) -> dict[int, str]:
        return {key: str(tactic) for made in self.made for key, tactic in made.tactics.items()}

    @cached_property
    def refusals(self) -> dict[int, str]:
        return {key: str(reason) for made in self.made for key, reason in made.refusals.items()}

    def units_of(self, name: str) -> tuple[Unit, ...]:
        return units(self.plan_of(name), corpus.read)

    def plan_of(self, name: str) -> FunctionPlan:
        return next(made for made in self.made if made.name == name)

    def refused(self) -> list[str]:
        """The reasons for which the driver would refuse the plans."""
        patches = [patch for made in self.made for patch in made.patches]
        return list(refused(self.units, patches, corpus.disassembly(), corpus.read))

    # Runs.

    def wrong(self, function: Function, seed: int) -> list[str] | None:
        """The differences in a call of the function; None if it does not return in any case."""
        registers, memory = start(seed)
        starts = {low for low, high, reason in corpus.image().reserved if reason == "ftrace"}
        plain = machine().run(function.start, registers, 0x202, corpus.code() | memory, {}, starts)
        if plain.end != "returned":
            return None
        after = self.spliced(function, registers, memory, starts)
        return [*_differences(plain, after), *self._miscounted(plain, after)]

    def spliced(
        self, function: Function, registers: dict[str, int], memory: dict[int, bytes], watched: Iterable[int] = ()
    ) -> Outcome:
        sites, traps = written(self.units)
        around = corpus.code() | memory | {p.address: p.data for p in fills(self.made)} | sites
        zeros = {GS_BASE + COUNTERS: bytes(8 * len(self.wants) + 8)}
        return machine().run(function.start, registers, 0x202, around | zeros, traps, frozenset(watched), (), _MOST)

    def _miscounted(self, plain: Outcome, after: Outcome) -> Iterator[str]:
        for key, want in self.wants.items():
            counted, visits = after.word(GS_BASE + COUNTERS + 8 * key), plain.visits[want.address]
            if key not in self.tactics:
                visits = 0
            if GS_BASE + COUNTERS + 8 * key & -PAGE not in after.pages:
                counted = 0
            if counted != visits:
                yield f"{want.address:#x} ({self.tactics.get(key)}): counted {counted}, came by {visits} times"


def _all_points(function: Function) -> Iterator[points.Point]:
    """The points around blocks, and before every instruction."""
    image, analysis = corpus.image(), corpus.analysis()
    for where in ("blocks", "blocks-post"):
        yield from points.points(image, analysis, function, where)
    for block in function.blocks:
        for step in analysis.steps(function, block):
            offset = f"+{step.instruction.ip - function.start:#x}"
            yield points.Point(image.name, function.name, offset, step.instruction.ip, False)


def start(seed: int) -> tuple[dict[str, int], dict[int, bytes]]:
    """Registers that suit most of the corpus, and a list and an array in memory."""
    rng = random.Random(seed)
    pick = (lambda: rng.getrandbits(64), lambda: rng.randrange(40), lambda: DATA + 32 * rng.randrange(8), lambda: 0)
    registers = {name: rng.choice(pick)() for name in GPRS} | {"rsp": STACK_TOP - 8}
    leaf = next(s.start for s in corpus.image().spans if s.name == "leaf")
    nodes = bytearray()
    for n in range(8):
        following = 0 if n == 7 else DATA + 32 * (n + 1)
        for word in (following, rng.randrange(8), rng.getrandbits(64), rng.choice((0, leaf))):
            nodes += word.to_bytes(8, "little")
    return registers, {DATA: bytes(nodes)}


def _differences(plain: Outcome, after: Outcome) -> Iterator[str]:
    if after.end != plain.end:
        yield f"{after.end} at {after.rip:#x}, not {plain.end}"
    yield from (f"{n} is {after.gpr[n]:#x}, not {plain.gpr[n]:#x}" for n in KEPT if after.gpr[n] != plain.gpr[n])
    if after.calls != plain.calls:
        yield f"calls are {[tuple(map(hex, c)) for c in after.calls]}, not {[tuple(map(hex, c)) for c in plain.calls]}"
    code = {page & -PAGE for low, data in corpus.code().items() for page in range(low, low + len(data) + PAGE, PAGE)}
    for page, data in plain.pages.items():
        skipped = (plain.gpr["rsp"] - page) if page == plain.gpr["rsp"] & -PAGE else 0
        hidden = page in code or STACK_TOP - 0x8000 <= page < plain.gpr["rsp"] & -PAGE
        if not hidden and after.pages.get(page, data)[skipped:] != data[skipped:]:
            yield f"page {page:#x} differs"
