# SPDX-License-Identifier: LGPL-2.1-or-later
"""The driver finds by itself everything that leads into a window from elsewhere: cold parts, exception fixups, other
clients."""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator
from functools import cached_property

import pytest
from iced_x86 import Decoder, Instruction, Mnemonic

from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import DriverUnit, DriverUnitKind, Verdict
from tests.kernel.driver.driving import Guest
from tests.kernel.driver.handmade import Bench, count, jump, moves

pytestmark = pytest.mark.xdist_group("lab")
ENOUGH = 5
#: Such a window may also conflict with something else.
REFUSED = (Verdict.LEADER, Verdict.BLACKLIST, Verdict.STATIC_KEY, Verdict.ALTERNATIVE, Verdict.EXCEPTION)
Run = list[Instruction]


class Code:
    """The kernel's functions by address, from /proc/kallsyms."""

    def __init__(self, guest: Guest) -> None:
        self.read = guest.text
        rows = [line.split() for line in guest.link.read_file("/proc/kallsyms").decode().splitlines()]
        self.names = {int(row[0], 16): (row[2], row[3:]) for row in rows if row[1] in "tTwW"}

    @cached_property
    def starts(self) -> list[int]:
        return sorted(self.names)

    def decoded(self, start: int) -> Run:
        """The instructions from a symbol to the next."""
        behind = bisect.bisect_right(self.starts, start)
        size = min(self.starts[behind] - start, 1 << 15) if behind < len(self.starts) else 0
        return list(Decoder(64, self.read(start, size), ip=start))

    def window_over(self, target: int) -> Run:
        """Movable instructions of at least five bytes, the second of which is at `target`; or none."""
        start = self.starts[bisect.bisect_right(self.starts, target) - 1]
        all_of_it = self.decoded(start)
        index = next((i for i, each in enumerate(all_of_it) if each.ip == target), 0)
        own = {each.near_branch_target for each in all_of_it if each.near_branch_target}
        runs = (all_of_it[index - 1 : index + more] for more in (1, 2, 3) if index > 1)
        run = next((run for run in runs if sum(each.len for each in run) >= 5), [])
        if any(not moves(each) or each.mnemonic in (Mnemonic.NOP, Mnemonic.UD2) for each in run):
            return []
        return [] if own & {each.ip for each in run[1:]} else run

    def unit(self, bench: Bench, run: Run) -> DriverUnit:
        return bench.splice(run[0].ip, self.read(run[0].ip, sum(each.len for each in run)), b"", several=True)


@pytest.fixture(scope="module")
def code(guest: Guest) -> Code:
    return Code(guest)


def returns_of(code: Code, in_module: bool) -> Iterator[int]:
    """The targets of jumps in cold parts, except the starts of functions."""
    for start in code.starts:
        name, module = code.names[start]
        if name.endswith(".cold") and bool(module) == in_module:
            for each in code.decoded(start):
                target = each.near_branch_target
                if (each.is_jmp_near or each.is_jcc_near) and target and target not in code.names:
                    yield target


@pytest.mark.parametrize("in_module", [False, True], ids=["core", "module"])
def test_returns_of_cold_parts_into_windows_are_found(
    driver: Driver, bench: Bench, code: Code, in_module: bool
) -> None:
    """Cold parts jump back into the middle of their functions; no other jump leads there."""
    found = 0
    for target in returns_of(code, in_module):
        if run := code.window_over(target):
            (outcome,) = driver.apply([code.unit(bench, run)])
            assert outcome.verdict in REFUSED
            found += (outcome.verdict, outcome.detail) == (Verdict.LEADER, target)
        if found == ENOUGH:
            break
    assert found >= (1 if in_module else ENOUGH)


def test_fixups_of_exceptions_into_windows_are_found(guest: Guest, driver: Driver, bench: Bench, code: Code) -> None:
    begin, end = (guest.symbols[f"__{side}___ex_table"] for side in ("start", "stop"))
    raw, found = guest.text(begin, end - begin), 0
    for offset in range(0, len(raw), 12):
        target = begin + offset + 4 + struct.unpack_from("<i", raw, offset + 4)[0]
        run = code.window_over(target) if code.starts[0] <= target < guest.symbols["_etext"] else []
        if run:
            (outcome,) = driver.apply([code.unit(bench, run)])
            found += (outcome.verdict, outcome.detail) == (Verdict.LEADER, target)
            assert outcome.verdict in REFUSED
        if found == ENOUGH:
            break
    assert found == ENOUGH


def test_a_jump_that_a_unit_has_displaced_is_still_found(
    guest: Guest, driver: Driver, bench: Bench, code: Code
) -> None:
    """The module is read again, when the jump itself is already in a patch."""
    for start in code.starts:
        name, module = code.names[start]
        if not (name.endswith(".cold") and module):
            continue
        for each in code.decoded(start):
            target = each.near_branch_target
            run = code.window_over(target) if each.is_jmp_near and target and target not in code.names else []
            if not run or driver.apply([code.unit(bench, run)])[0].verdict != Verdict.LEADER:
                continue
            patch = bench.next
            bench.put(jump(patch, target))
            old = code.read(each.ip, each.len)
            outcomes = driver.apply([DriverUnit(900, DriverUnitKind.SINGLE, each.ip, patch, old, jump(each.ip, patch))])
            if outcomes[0].verdict == Verdict.OK:
                assert driver.apply([code.unit(bench, run)])[0].verdict == Verdict.LEADER
                driver.undo_all()
                return
    raise AssertionError("no such jump")


def test_places_that_another_client_has_are_refused(guest: Guest, driver: Driver, bench: Bench) -> None:
    """Our own plan is refused because of the other client; once that is gone, the plan can be carried out."""
    function = guest.function("__x64_sys_getppid")
    run = function.window(10, several=True)
    mine = bench.before(function, run, count(driver.counters(1)[0].gs))
    assert driver.apply([mine])[0].verdict == Verdict.OK

    def other() -> tuple[int, int]:
        status, detail = guest.run(str(guest.compiled("second")), hex(mine.address), mine.old.hex()).split()
        return int(status), int(detail, 16)

    assert other() == (Verdict.OVERLAP, mine.address)
    guest.call("getppid", 100)
    assert driver.read(0, 1) == [100]
    driver.undo_all()
    assert other() == (Verdict.OK, 0)
    assert guest.text(mine.address, len(mine.old)) == mine.old
