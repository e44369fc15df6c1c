# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every function of the kernel at once: behind its entry, and at its entry through ftrace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from iced_x86 import Decoder

from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import CounterRange, DriverUnit, DriverUnitKind, Verdict
from tests.kernel.driver.driving import Guest
from tests.kernel.driver.handmade import count, count_far, jump, moves

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.stress, pytest.mark.timeout(1800)]
FENTRY_NOP = bytes.fromhex("0f1f440000")
REFUSALS_THAT_ARE_DUE = {
    Verdict.STATIC_KEY, Verdict.STATIC_CALL, Verdict.BLACKLIST, Verdict.EXCEPTION, Verdict.LEADER,
}  # fmt: skip


@dataclass
class Code:
    """Patches one after another, filled into an arena at once; counter and patch have the same index."""

    start: int
    blocks: Sequence[CounterRange]
    content: bytearray = field(default_factory=bytearray)

    def count(self, index: int) -> bytes:
        offset = next(b for b in self.blocks if b.first <= index < b.first + b.count).offset(index)
        return count(offset) if -(2**31) <= offset < 2**31 else count_far(offset)

    def put(self, body: bytes) -> int:
        address = self.start + len(self.content)
        self.content += body.ljust(-(-len(body) // 16) * 16, b"\xcc")
        return address

    @property
    def next(self) -> int:
        return self.start + len(self.content)


@pytest.fixture(scope="module")
def entries(guest: Guest) -> list[int]:
    """The functions of core text that ftrace knows."""
    guest.mount("tracefs", "/sys/kernel/tracing")
    rows = guest.link.read_file("/sys/kernel/tracing/available_filter_functions").decode().splitlines()
    found = {guest.symbols.get(row, 0) for row in rows if "[" not in row}
    first, text = guest.symbols["_stext"], guest.text_at_start
    return sorted(at for at in found if text[at - first : at - first + 5] == FENTRY_NOP)


def behind_entries(guest: Guest, entries: list[int], code: Code) -> Iterator[DriverUnit]:
    first, text = guest.symbols["_stext"], guest.text_at_start
    for index, entry in enumerate(entries):
        at, size, number = entry + 5, 0, 0
        for instruction in Decoder(64, text[at - first : at - first + 40], ip=at):
            if size >= 5 or not moves(instruction):
                break
            size, number = size + instruction.len, number + 1
        if size < 5:
            continue
        old = text[at - first : at - first + size]
        hook = b"\x9c" + code.count(index) + b"\x9d"  # the flags may be live at the target of a jump
        body = hook + old
        patch = code.put(body + jump(code.next + len(body), at + size))
        kind = DriverUnitKind.MULTI if number > 1 else DriverUnitKind.SINGLE
        yield DriverUnit(index + 1, kind, at, patch, old, jump(at, patch).ljust(size, b"\x90"), patch + len(hook))


def at_entries(entries: list[int], code: Code) -> Iterator[DriverUnit]:
    for index, entry in enumerate(entries):
        yield DriverUnit(index + 1, DriverUnitKind.FENTRY, entry, code.put(code.count(index) + b"\xc3"))


@pytest.mark.parametrize("way", ["behind", "fentry"])
def test_every_function_of_the_kernel_counts_at_once(
    guest: Guest, driver: Driver, entries: list[int], way: str
) -> None:
    assert len(entries) > 30000
    code = Code(driver.arena(16 << 20), driver.counters(len(entries)))
    units = list(behind_entries(guest, entries, code) if way == "behind" else at_entries(entries, code))
    driver.fill([(code.start, bytes(code.content))])
    verdicts = Counter(each.verdict for each in driver.apply(units))
    assert verdicts[Verdict.OK] > 0.99 * len(units)
    assert verdicts.keys() - {Verdict.OK} <= REFUSALS_THAT_ARE_DUE
    place = entries.index(guest.symbols["__x64_sys_getppid"])
    before = driver.read(place, 1)[0]
    guest.run("find", "/proc/self", "-maxdepth", "2")
    guest.call("getppid", 1000)
    assert sum(1 for hits in driver.read(0, len(entries)) if hits) > 500
    if any(unit.number == place + 1 for unit in units):
        assert driver.read(place, 1)[0] - before == 1000
    assert driver.undo_all() == 0
    assert [hex(each) for each in guest.changed()] == []
    assert guest.complaints() == ""
