# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions of a stock kernel, as in memory, under plans: they run from random registers, with random memory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cached_property, lru_cache

import capstone
import pytest

from gilk.analysis.kernel import KernelAnalysis
from gilk.analysis.model import Function
from gilk.image.kernel.build import KernelImage, kernel
from gilk.image.kernel.snapshot import KernelSnapshot
from gilk.image.model import Image
from gilk.lab import Machine as Vm
from gilk.lab import boot
from gilk.splice import points
from gilk.splice.kernel.host import kernel_context
from gilk.splice.kernel.instrument import KernelCount
from gilk.splice.kernel.planner import plan
from gilk.splice.kernel.units import Unit, fills, units
from gilk.splice.plan import Want
from gilk.targets.kernel.image import read
from tests.oracle.relocate import GPRS
from tests.splice.kernel.corpus import ARENA_SIZE
from tests.splice.kernel.driver import Listing, refused, written
from tests.splice.kernel.machine import GS_BASE, PAGE, STACK_TOP, Machine, Outcome, contents

ARENA = 0xFFFFFFFFC2000000
COUNTERS = 0x80000
KEPT = ("rax", "rbx", "rbp", "rsp", "r12", "r13", "r14", "r15")
SHORT, LONG = 400, 8000  # instructions
pytestmark = pytest.mark.stress


@pytest.fixture(scope="module")
def live() -> KernelImage:
    with boot(Vm(cpus=1)) as vm:
        vm.link.run(["modprobe", "-a", "ext4", "nf_tables"])
        snapshot: KernelSnapshot = read(vm.link)
    return kernel(snapshot)


class Trial:
    """A function with counters at some points."""

    def __init__(self, live: KernelImage, analysis: KernelAnalysis, function: Function, rng: random.Random) -> None:
        self.image: Image = live.image
        self.analysis, self.function = analysis, function
        share = rng.choice((1.0, 1.0, 0.4))
        self.wants = {w.key: w for w in self._wants() if rng.random() < share}
        ground = kernel_context(analysis, ARENA, ARENA_SIZE)
        (self.made,) = plan(ground, [(function, list(self.wants.values()))]).functions
        self.units: tuple[Unit, ...] = units(self.made, self.image.read)

    def _wants(self) -> Iterator[Want]:
        key = 0
        for where in ("blocks", "blocks-post"):
            for point in points.points(self.image, self.analysis, self.function, where):
                key += 1
                yield Want(point.address, point.after, KernelCount(COUNTERS + 8 * key), key)

    @cached_property
    def listing(self) -> Listing:
        """The instructions of the blocks, and the int3 behind them."""
        decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        found: dict[int, tuple[int, str]] = {}
        for block in self.function.blocks:
            for i in decoder.disasm(self.image.read(block.start, block.end - block.start), block.start):
                found[i.address] = i.size, f"{i.mnemonic} {i.op_str}"
        for at in (block.end for block in self.function.blocks):
            while at not in found and self.image.read(at, 1) == b"\xcc":
                found[at] = 1, "int3"
                at += 1
        return found

    def refused(self) -> list[str]:
        return list(refused(self.units, self.made.patches, self.listing, self.image.read))

    def wrong(self, machine: Machine, rng: random.Random) -> list[str] | None:
        """The differences; None if the function does not return, or reads the time."""
        registers = start(rng)
        zeros = {GS_BASE + COUNTERS: bytes(8 * len(self.listing) + 16)}
        rounds = {at for at, (_, text) in self.listing.items() if text.startswith("rep")}
        plain = machine.run(self.function.start, registers, 0x202, zeros, {}, (), rounds, SHORT)
        clocks = {at for at, (_, text) in self.listing.items() if text.startswith("rdtsc")}
        if plain.end != "returned" or clocks & plain.visits.keys():
            return None
        sites, traps = written(self.units)
        around = zeros | sites | {patch.address: patch.data for patch in fills([self.made])}
        after = machine.run(self.function.start, registers, 0x202, around, traps, (), rounds, LONG)
        return [*differences(plain, after, sites), *self._miscounted(plain, after)]

    def _miscounted(self, plain: Outcome, after: Outcome) -> Iterator[str]:
        for key in self.made.tactics:
            place = GS_BASE + COUNTERS + 8 * key
            counted = after.word(place) if place & -PAGE in after.pages else 0
            visits = plain.visits[self.wants[key].address]
            if counted != visits:
                yield f"{self.wants[key].address:#x}: counted {counted}, came by {visits} times"


def start(rng: random.Random) -> dict[str, int]:
    pick = (
        lambda: rng.getrandbits(64),
        lambda: rng.randrange(40),
        lambda: 0xFFFF888010000000 + 8 * rng.randrange(1 << 14),
        lambda: 0,
    )
    return {name: rng.choices(pick, (1, 3, 4, 2))[0]() for name in GPRS} | {"rsp": STACK_TOP - 8}


def differences(plain: Outcome, after: Outcome, sites: dict[int, bytes]) -> Iterator[str]:
    if after.end != plain.end:
        yield f"{after.end} at {after.rip:#x}"
    yield from (f"{n} is {after.gpr[n]:#x}, not {plain.gpr[n]:#x}" for n in KEPT if after.gpr[n] != plain.gpr[n])
    code = {site & -PAGE for site in sites} | {site + 24 & -PAGE for site in sites}
    for page, data in plain.pages.items():
        private = STACK_TOP - 0x8000 <= page < STACK_TOP or GS_BASE + COUNTERS <= page < GS_BASE + 2 * COUNTERS
        if page not in code and not private and after.pages.get(page, data) != data:
            yield f"page {page:#x} differs"


def background(live: KernelImage) -> Machine:
    @lru_cache(maxsize=4096)
    def page(address: int) -> bytes:
        data = bytearray(contents(address))
        for part in live.snapshot.parts:
            text = part.text
            low, high = max(text.address, address), min(text.end, address + PAGE)
            if low < high:
                data[low - address : high - address] = text.data[low - text.address : high - text.address]
        return bytes(data)

    return Machine(page)


def test_functions_of_a_stock_kernel_compute_the_same_under_plans(live: KernelImage) -> None:
    rng, analysis, machine = random.Random(1), KernelAnalysis(live), background(live)
    told = 0
    tactics: set[str] = set()
    for span in rng.sample(live.image.spans, 1500):
        function = analysis.function(span)
        if not function.blocks:
            continue
        trial = Trial(live, analysis, function, rng)
        assert not trial.refused(), function.name
        tactics.update(map(str, trial.made.tactics.values()))
        for _ in range(3):
            wrong = trial.wrong(machine, rng)
            told += wrong is not None
            assert not wrong, (function.name, wrong)
    assert told > 500
    assert tactics >= {"jump", "call", "bounce", "copy", "fentry", "trap"}
