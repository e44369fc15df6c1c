# SPDX-License-Identifier: LGPL-2.1-or-later
"""Places that the driver refuses to splice, by name; the kernel's own lists say where such places are."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from iced_x86 import Instruction, Mnemonic

from gilk.errors import TargetError
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import DriverUnit, DriverUnitKind, Verdict
from tests.kernel.driver.driving import Guest
from tests.kernel.driver.handmade import Bench, Function, count, jump, moves

pytestmark = pytest.mark.xdist_group("lab")


@pytest.fixture
def unit(guest: Guest, driver: Driver, bench: Bench) -> DriverUnit:
    """A valid unit, not applied."""
    function = guest.function("__x64_sys_getppid")
    return bench.before(function, function.window(10, several=True), count(driver.counters(1)[0].gs))


def verdict(driver: Driver, unit: DriverUnit) -> Verdict:
    outcome = driver.apply([unit])[0]
    if outcome.verdict == Verdict.OK:
        driver.undo([unit.number])
    return outcome.verdict


def at(guest: Guest, bench: Bench, address: int, size: int = 0) -> DriverUnit:
    """A TRAP over the instruction at `address`, or a jump over `size` bytes, with the bytes that are there now."""
    code = guest.text(address, 16)
    if size:
        patch, copy = bench.moved(b"", code[:size], address + size)
        return DriverUnit(
            1, DriverUnitKind.SINGLE, address, patch, code[:size], jump(address, patch).ljust(size, b"\x90"), copy
        )
    length = Function(address, code).decoded().len
    patch, copy = bench.moved(b"", code[:length], address + length)
    return DriverUnit(1, DriverUnitKind.TRAP, address, patch, code[:length], b"\xcc" + code[1:length], copy)


def table(guest: Guest, start: str, stop: str, row: int) -> Iterator[tuple[int, bytes]]:
    begin = guest.symbols[start]
    raw = guest.text(begin, guest.symbols[stop] - begin)
    for offset in range(0, len(raw), row):
        place = begin + offset
        yield place + struct.unpack_from("<i", raw, offset)[0], raw[offset : offset + row]


def test_a_valid_unit_is_accepted(driver: Driver, unit: DriverUnit) -> None:
    assert verdict(driver, unit) == Verdict.OK


@pytest.mark.stock
def test_a_unit_with_stale_bytes_is_refused(driver: Driver, unit: DriverUnit) -> None:
    wrong = bytes([unit.old[0], unit.old[1] ^ 0x38]) + unit.old[2:]
    assert verdict(driver, replace(unit, old=wrong)) == Verdict.STALE


@pytest.mark.parametrize("name", ["do_syscall_64", "asm_exc_page_fault", "poke_int3_handler", "kprobe_int3_handler"])
def test_a_place_in_the_kprobe_blacklist_is_refused(guest: Guest, driver: Driver, bench: Bench, name: str) -> None:
    assert verdict(driver, at(guest, bench, guest.symbols[name])) == Verdict.BLACKLIST


def test_every_range_of_the_kprobe_blacklist_is_refused(guest: Guest, driver: Driver, bench: Bench) -> None:
    guest.mount("debugfs", "/sys/kernel/debug")
    lines = guest.link.read_file("/sys/kernel/debug/kprobes/blacklist").decode().splitlines()
    ranges = [tuple(int(part, 16) for part in line.split()[0].split("-")) for line in lines]
    first, last = guest.symbols["_stext"], guest.symbols["_etext"]
    inside = [start for start, end in ranges if first <= start < last and end > start]
    units = [replace(at(guest, bench, start), number=i + 1) for i, start in enumerate(inside[::8])]
    verdicts = {each.verdict for each in driver.apply(units)}
    assert len(units) > 20
    assert verdicts <= {Verdict.BLACKLIST, Verdict.DECODE}, verdicts
    assert driver.status().own_units == 0


@pytest.mark.parametrize("name", ["__rcu_read_lock", "__rcu_read_unlock", "hw_breakpoint_exceptions_notify"])
def test_a_trap_in_code_that_traps_run_is_refused(guest: Guest, driver: Driver, bench: Bench, name: str) -> None:
    """The kernel calls its notifiers of a trap, one before the driver's, under RCU: these functions would trap again
    on that way."""
    function = guest.function(name)
    assert verdict(driver, at(guest, bench, function.instructions[1].ip)) == Verdict.BLACKLIST


def test_a_static_key_is_refused(guest: Guest, driver: Driver, bench: Bench) -> None:
    places = [code for code, _ in table(guest, "__start___jump_table", "__stop___jump_table", 16)]
    place = next(each for each in places if guest.text(each, 5) == bytes.fromhex("0f1f440000"))
    assert verdict(driver, at(guest, bench, place, 5)) == Verdict.STATIC_KEY


def test_a_static_call_is_refused(guest: Guest, driver: Driver, bench: Bench) -> None:
    start, stop = "__start_static_call_sites", "__stop_static_call_sites"
    etext = guest.symbols["_etext"]
    places = [code for code, _ in table(guest, start, stop, 8) if guest.symbols["_stext"] <= code < etext]
    place = next(each for each in places if guest.text(each, 1) == b"\xe8")
    assert verdict(driver, at(guest, bench, place, 5)) == Verdict.STATIC_CALL


def test_an_instruction_in_the_exception_table_is_refused(guest: Guest, driver: Driver, bench: Bench) -> None:
    rows = table(guest, "__start___ex_table", "__stop___ex_table", 12)
    units = [replace(at(guest, bench, code), number=i + 1) for i, (code, _) in enumerate(list(rows)[100:140])]
    verdicts = [each.verdict for each in driver.apply(units)]
    assert verdicts.count(Verdict.EXCEPTION) > len(units) // 2
    assert Verdict.OK not in verdicts


def test_an_instruction_of_a_warning_is_refused(guest: Guest, driver: Driver, bench: Bench) -> None:
    places = (code for code, _ in table(guest, "__start___bug_table", "__stop___bug_table", 12))
    place = next(each for each in places if guest.symbols["_stext"] <= each < guest.symbols["_etext"])
    assert guest.text(place, 2) == b"\x0f\x0b"
    assert verdict(driver, at(guest, bench, place)) == Verdict.BUG


def test_a_splice_over_an_fentry_nop_is_refused(guest: Guest, driver: Driver, bench: Bench) -> None:
    assert verdict(driver, at(guest, bench, guest.symbols["vfs_read"], 5)) == Verdict.FTRACE


def test_an_fentry_unit_without_the_nop_is_refused(guest: Guest, driver: Driver, bench: Bench) -> None:
    unit = DriverUnit(1, DriverUnitKind.FENTRY, guest.symbols["__x64_sys_getppid"] + 5, bench.put(b"\xc3"))
    assert verdict(driver, unit) == Verdict.NO_FENTRY


def test_a_unit_in_init_text_is_refused(guest: Guest, driver: Driver, bench: Bench, unit: DriverUnit) -> None:
    moved = replace(unit, kind=DriverUnitKind.TRAP, address=guest.symbols["_sinittext"] + 64, old=b"\x90", new=b"\xcc")
    assert verdict(driver, moved) == Verdict.INIT


@pytest.mark.parametrize("address", [0x1000, 0xFFFF888000100000, 0xFFFFFFFFFFFFF000, 0x7FFFFFFFF000])
def test_a_unit_outside_of_text_is_refused(driver: Driver, unit: DriverUnit, address: int) -> None:
    moved = replace(unit, kind=DriverUnitKind.TRAP, address=address, old=b"\x90", new=b"\xcc")
    assert verdict(driver, moved) == Verdict.OUTSIDE


def test_a_unit_in_kernel_data_is_refused(guest: Guest, driver: Driver, unit: DriverUnit) -> None:
    moved = replace(unit, kind=DriverUnitKind.TRAP, address=guest.symbols["init_task"], old=b"\x90", new=b"\xcc")
    assert verdict(driver, moved) == Verdict.OUTSIDE


def test_a_unit_in_the_driver_itself_is_refused(guest: Guest, driver: Driver, bench: Bench) -> None:
    assert verdict(driver, at(guest, bench, driver.symbols["ilk_reserve"])) == Verdict.MODULE


def test_two_units_at_one_place_are_refused(driver: Driver, unit: DriverUnit) -> None:
    first, second = driver.apply([unit, replace(unit, number=99)])
    assert first.verdict == Verdict.OK
    assert (second.verdict, second.detail) == (Verdict.OVERLAP, unit.address)
    driver.undo_all()


@pytest.mark.stock
def test_two_units_of_one_number_are_refused(guest: Guest, driver: Driver, bench: Bench, unit: DriverUnit) -> None:
    function = guest.function("__x64_sys_getpgrp")
    other = replace(bench.before(function, function.window(5, several=False), b""), number=unit.number)
    assert [each.verdict for each in driver.apply([unit, other])] == [Verdict.OK, Verdict.DUPLICATE]
    driver.undo_all()


def test_partly_overlapping_units_are_refused(guest: Guest, driver: Driver, unit: DriverUnit) -> None:
    first = Function(unit.address, unit.old).decoded().len
    inner = replace(unit, number=98, kind=DriverUnitKind.TRAP, address=unit.address + first, old=unit.old[first:])
    inner = replace(inner, old=inner.old[: Function(inner.address, inner.old).decoded().len])
    inner = replace(inner, new=b"\xcc" + inner.old[1:])
    assert [each.verdict for each in driver.apply([unit, inner])] == [Verdict.OK, Verdict.OVERLAP]
    driver.undo_all()


BAD = {
    "no kind": (lambda u: replace(u, kind=7), Verdict.BAD_UNIT),
    "number 0": (lambda u: replace(u, number=0), Verdict.BAD_UNIT),
    "no window": (lambda u: replace(u, old=b"", new=b""), Verdict.BAD_UNIT),
    "too short": (lambda u: replace(u, old=u.old[:4], new=u.new[:4]), Verdict.BAD_UNIT),
    "too long": (lambda u: replace(u, old=u.old + bytes(100)), Verdict.BAD_UNIT),
    "several of one": (lambda u: replace(u, several=True), Verdict.BAD_UNIT),
    "a pad of a jump": (lambda u: replace(u, pad=3), Verdict.BAD_UNIT),
    "no jump": (lambda u: replace(u, new=b"\x90" * len(u.new)), Verdict.BAD_BYTES),
    "elsewhere": (lambda u: replace(u, new=jump(u.address, u.patch + 1).ljust(len(u.new), b"\x90")), Verdict.BAD_BYTES),
    "a call over no call": (lambda u: replace(u, new=b"\xe8" + u.new[1:]), Verdict.BAD_BYTES),
    "rubbish behind": (lambda u: replace(u, new=u.new[:-1] + b"\x0f"), Verdict.BAD_BYTES),
    "not whole": (lambda u: replace(u, old=u.old[:-1], new=u.new[:-1]), Verdict.DECODE),
    "single of several": (lambda u: replace(u, kind=DriverUnitKind.SINGLE), Verdict.DECODE),
    "no copy": (lambda u: replace(u, copy=0), Verdict.BAD_PATCH),
    "copy elsewhere": (lambda u: replace(u, copy=u.address), Verdict.BAD_PATCH),
    "no such pad": (
        lambda u: replace(
            u, kind=DriverUnitKind.SHORT, several=True, pad=77, new=b"\xeb\x00".ljust(len(u.new), b"\x90")
        ),
        Verdict.BAD_PAD,
    ),
    "a trap that is none": (lambda u: replace(u, kind=DriverUnitKind.TRAP), Verdict.BAD_BYTES),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_malformed_units_are_refused(driver: Driver, unit: DriverUnit, name: str) -> None:
    change, expected = BAD[name]
    assert verdict(driver, change(unit)) == expected


def test_a_patch_outside_of_an_arena_is_refused(driver: Driver, unit: DriverUnit, guest: Guest) -> None:
    elsewhere = guest.symbols["vfs_read"]
    wrong = replace(unit, patch=elsewhere, new=jump(unit.address, elsewhere).ljust(len(unit.new), b"\x90"))
    assert verdict(driver, wrong) == Verdict.BAD_PATCH


def test_a_window_with_a_call_inside_is_refused(guest: Guest, driver: Driver, bench: Bench) -> None:
    """A frame below may return into the middle of the window."""
    function = guest.function("__x64_sys_getppid")
    index = next(i for i, each in enumerate(function.instructions) if i > 1 and each.is_call_near)
    run = function.instructions[index : index + 2]
    old = function.bytes_of(*run)
    unit = bench.splice(run[0].ip, old, b"", several=True)
    assert verdict(driver, unit) == Verdict.DECODE


def jumped_into(function: Function) -> list[Instruction]:
    """Two instructions of which the second is the target of a jump, and as many more as a window takes; or none."""
    targets = {each.near_branch_target for each in function.instructions if each.is_jcc_short_or_near}
    for index in range(2, len(function.instructions) - 2):
        run = function.instructions[index - 1 : index + 2]
        still = all(moves(each) and each.mnemonic != Mnemonic.NOP for each in run)  # a nop may be a static key's
        if run[1].ip in targets and still and sum(each.len for each in run) >= 5:
            return run
    return []


def test_a_window_that_a_jump_leads_into_is_refused(guest: Guest, driver: Driver, bench: Bench) -> None:
    names = ("vfs_read", "vfs_write", "do_exit", "wake_up_process", "dput", "path_lookupat", "schedule", "kfree")
    functions = [Function.read(guest.text, guest.symbols[name], 512) for name in names]
    found = [(function, run) for function in functions if (run := jumped_into(function))]
    assert found
    for function, run in found:
        outcome = driver.apply([bench.before(function, run, b"")])[0]
        assert (outcome.verdict, outcome.detail) == (Verdict.LEADER, run[1].ip)


def test_a_pad_over_live_code_is_refused(driver: Driver, unit: DriverUnit) -> None:
    pad = replace(unit, kind=DriverUnitKind.PAD)
    assert verdict(driver, pad) == Verdict.BAD_PAD


def test_undoing_unknown_units_is_refused(driver: Driver) -> None:
    assert [each.verdict for each in driver.undo([5, 6])] == [Verdict.UNKNOWN] * 2


@pytest.mark.stock
def test_a_pad_in_use_cannot_be_undone(guest: Guest, driver: Driver, bench: Bench, unit: DriverUnit) -> None:
    address, old = guest.function("__x64_sys_getppid").ret
    patch, copy = bench.moved(b"", old[:1], address + 1)
    pad = DriverUnit(50, DriverUnitKind.PAD, unit.address + 5, patch, unit.new[5:10], jump(unit.address + 5, patch))
    short = bytes([0xEB, pad.address - (address + 2) & 0xFF])
    bounce = DriverUnit(51, DriverUnitKind.SHORT, address, patch, old[:2], short, copy, pad=50)
    assert {each.verdict for each in driver.apply([unit, pad, bounce])} == {Verdict.OK}
    assert [each.verdict for each in driver.undo([50, unit.number])] == [Verdict.IN_USE] * 2
    assert [each.verdict for each in driver.undo([unit.number, 51, 50])] == [Verdict.OK] * 3


def test_a_driver_of_another_protocol_raises_a_named_error(guest: Guest, driver: Driver) -> None:
    class Other:
        open_driver, drain, lend = guest.link.open_driver, guest.link.drain, guest.link.lend

        def control(self, request: int, payload: bytes) -> bytes:
            return guest.link.control(request, payload[:4] + b"\x63\0\0\0" + payload[8:])

    with pytest.raises(TargetError) as caught:
        Driver(Other())
    assert caught.value.slug == "driver-version"


@pytest.mark.parametrize(
    ("ask", "slug"),
    [
        (lambda d: d.arena(1 << 40), "driver-limit"),
        (lambda d: d.arena(0), "driver-refused"),
        (lambda d: d.counters(1 << 30), "driver-limit"),
        (lambda d: d.read(0, 1), "driver-refused"),
        (lambda d: d.records((31, 0, 0, 0)), "driver-limit"),
        (lambda d: d.records((4, 0, 0, 0)), "driver-refused"),
        (lambda d: d.records((0, 0, 0, 0)), "driver-refused"),
        (lambda d: d.fill([(0xFFFFFFFF81000000, b"\xcc")]), "driver-refused"),
        (lambda d: d.fill([(d.arena(4096) + 4090, bytes(16))]), "driver-refused"),
    ],
)  # fmt: skip
def test_impossible_requests_raise_named_errors(driver: Driver, ask: Callable[[Driver], object], slug: str) -> None:
    with pytest.raises(TargetError) as caught:
        ask(driver)
    assert caught.value.slug == slug


def test_refused_units_have_written_nothing(guest: Guest) -> None:
    assert [hex(each) for each in guest.changed()] == []
