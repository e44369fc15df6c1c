# SPDX-License-Identifier: LGPL-2.1-or-later
"""Parts that the compiler has split off blacklisted functions: the image treats each as the kernel does."""

from __future__ import annotations

import random

import pytest

from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import DriverUnit, DriverUnitKind, UnitOutcome, Verdict
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.driver.handmade import Bench, Function, moves

pytestmark = pytest.mark.xdist_group("lab")


def trap(guest: Guest, bench: Bench, address: int) -> DriverUnit:
    """A trap over the first instruction of a function."""
    code = guest.text(address, 16)
    old = code[: Function(address, code).decoded().len]
    patch, copy = bench.moved(b"", old, address + len(old))
    return DriverUnit(next(bench.numbers), DriverUnitKind.TRAP, address, patch, old, b"\xcc" + old[1:], copy)


def test_parts_of_blacklisted_functions_are_refused(kernel: KernelTarget, guest: Guest) -> None:
    image, chooser = kernel.kernel.image, random.Random(1)
    text = kernel.kernel.snapshot.parts[0].text
    why: dict[int, set[str]] = {}
    for low, _, reason in image.reserved:
        if span := image.span_at(low):
            why.setdefault(span.start, set()).add(reason)
    parts = [span.start for span in image.spans if "." in span.name and text.address <= span.start < text.end]
    ours = [start for start in parts if "blacklisted" in why.get(start, ())]
    free = chooser.sample([start for start in parts if start not in why], 80)
    others = [start for start in free if moves(Function(start, guest.text(start, 16)).decoded())]
    assert len(ours) >= 10 and len(others) > 20
    driver = Driver(guest.link)
    bench = Bench(driver, 1 << 18)

    def verdicts(starts: list[int]) -> list[UnitOutcome]:
        found = driver.apply([trap(guest, bench, start) for start in starts])
        driver.undo_all()
        return found

    refused, taken = verdicts(ours), verdicts(others)
    assert {outcome.verdict for outcome in refused} == {Verdict.BLACKLIST}
    assert Verdict.BLACKLIST not in {outcome.verdict for outcome in taken}
    guest.link.close_driver()
