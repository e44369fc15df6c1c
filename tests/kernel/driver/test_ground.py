# SPDX-License-Identifier: LGPL-2.1-or-later
"""The driver's proofs about padding and windows, which it finds by reading a function; a module has a function for
each case."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from iced_x86 import Decoder

from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import DriverUnit, DriverUnitKind, UnitOutcome, Verdict
from tests.kernel.driver.driving import SOURCES, Guest
from tests.kernel.driver.handmade import Bench, jump
from tests.seldom import seldom

pytestmark = pytest.mark.xdist_group("lab")
NAME = "gilk_test_ground"
TRACING = "/sys/kernel/tracing"
PADDING = bytes.fromhex("0f1f840000000000")
NO_INSTRUCTION = bytes.fromhex("0f38f2c0")
WINDOW = bytes.fromhex("b911111111 ba22222222")


@pytest.fixture(scope="module")
def ground(guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    guest.run("insmod", str(guest.module_of(SOURCES / NAME, tmp_path_factory.mktemp("ground"))))
    yield guest
    guest.link.close_driver()
    guest.run("rmmod", NAME)


def place_of(guest: Guest, name: str, wanted: bytes) -> int:
    start = guest.module_symbol(name)
    assert start, name
    return start + guest.text(start, 512).index(wanted)


def padded(guest: Guest, driver: Driver, bench: Bench, name: str) -> tuple[UnitOutcome, int]:
    """Apply a pad over the function's padding, and undo it. Returns the driver's verdict, and the address of the
    padding."""
    address = place_of(guest, name, PADDING)
    patch = bench.put(b"\xcc")
    pad = DriverUnit(1, DriverUnitKind.PAD, address, patch, PADDING, jump(address, patch).ljust(len(PADDING), b"\xcc"))
    (outcome,) = driver.apply([pad])
    driver.undo_all()
    return outcome, address


def windowed(guest: Guest, driver: Driver, bench: Bench, name: str) -> UnitOutcome:
    address = place_of(guest, name, WINDOW)
    (outcome,) = driver.apply([bench.splice(address, WINDOW, b"", several=True)])
    driver.undo_all()
    return outcome


@pytest.mark.parametrize("name", seldom(["jump", "never_returns", "return", "indirect", "more_padding"], 2))
def test_unreachable_padding_is_accepted(ground: Guest, driver: Driver, bench: Bench, name: str) -> None:
    assert padded(ground, driver, bench, f"ground_{name}")[0].verdict == Verdict.OK


@pytest.mark.parametrize("name", seldom(["falls", "condition", "call", "ud2", "first", "int3", "halt"], 4))
def test_padding_that_is_executed_is_refused(ground: Guest, driver: Driver, bench: Bench, name: str) -> None:
    outcome, address = padded(ground, driver, bench, f"ground_{name}")
    assert (outcome.verdict, outcome.detail) == (Verdict.RUN_INTO, address)


def test_padding_behind_the_jump_of_a_static_key_is_refused(ground: Guest, driver: Driver, bench: Bench) -> None:
    """The padding is run once the key is turned off."""
    outcome, address = padded(ground, driver, bench, "ground_key_jump")
    assert (outcome.verdict, outcome.detail) == (Verdict.RUN_INTO, address - 1)


@pytest.mark.parametrize(("name", "before"), [("led", 0), ("led_before", 1)])
def test_padding_that_a_short_jump_leads_to_is_refused(
    ground: Guest, driver: Driver, bench: Bench, name: str, before: int
) -> None:
    """The jump leads to the padding, or to code that runs into it."""
    outcome, address = padded(ground, driver, bench, f"ground_{name}")
    assert (outcome.verdict, outcome.detail) == (Verdict.LEADER, address - before)


def test_padding_behind_undecodable_code_is_refused(ground: Guest, driver: Driver, bench: Bench) -> None:
    assert padded(ground, driver, bench, "ground_unread")[0].verdict == Verdict.UNREAD


@pytest.mark.parametrize("name", ["window", "far"])
def test_a_window_out_of_reach_of_unknown_code_is_accepted(
    ground: Guest, driver: Driver, bench: Bench, name: str
) -> None:
    assert windowed(ground, driver, bench, f"ground_{name}").verdict == Verdict.OK


def test_a_window_that_undecodable_code_may_jump_into_is_refused(ground: Guest, driver: Driver, bench: Bench) -> None:
    outcome = windowed(ground, driver, bench, "ground_near")
    assert outcome.verdict == Verdict.UNREAD
    assert ground.text(outcome.detail, 4) == NO_INSTRUCTION


@contextmanager
def kprobe(guest: Guest, place: str) -> Iterator[None]:
    guest.mount("tracefs", TRACING)
    guest.write(f"{TRACING}/kprobe_events", f"p:gilkground/one {place}")
    guest.write(f"{TRACING}/events/gilkground/one/enable", "1")
    try:
        yield
    finally:
        guest.write(f"{TRACING}/events/gilkground/one/enable", "0")
        guest.write(f"{TRACING}/kprobe_events", "-:gilkground/one")


def test_a_window_before_a_kprobe_is_refused_while_that_is_there(guest: Guest, driver: Driver, bench: Bench) -> None:
    """While the kprobe is there, the driver cannot know the instruction under it, nor those that follow."""
    function = guest.function("__x64_sys_getppid")
    run = function.window(10, several=True)
    behind = function.find(lambda each: each.ip > run[-1].next_ip)
    unit = bench.before(function, run, b"")
    with kprobe(guest, hex(behind.ip)):
        (outcome,) = driver.apply([unit])
        assert (outcome.verdict, outcome.detail) == (Verdict.UNREAD, behind.ip)
    assert driver.apply([unit])[0].verdict == Verdict.OK


def returns_of_cold_parts(guest: Guest) -> Iterator[tuple[int, int]]:
    """Jumps of core functions' cold parts, with their targets; without the first instructions of the parts."""
    lowest, highest = guest.symbols["_stext"], guest.symbols["_etext"]
    for name, start in guest.symbols.items():
        if name.endswith(".cold") and lowest <= start < highest:
            for each in Decoder(64, guest.text(start, 64), ip=start):
                if each.ip > start and each.is_jmp_near and each.near_branch_target:
                    yield each.ip, each.near_branch_target
                    break


def test_a_jump_that_a_kprobe_covers_is_still_found(guest: Guest, driver: Driver, bench: Bench) -> None:
    """Only the int3 of the cold part can be seen; the code behind it cannot be decoded."""
    for source, target in returns_of_cold_parts(guest):
        instructions = list(Decoder(64, guest.text(target - 15, 30), ip=target - 15))
        if not any(each.ip == target for each in instructions):
            continue
        code = guest.text(target - 5, 10)
        unit = bench.splice(target - 5, code, b"", several=True)
        if driver.apply([unit])[0].detail != target:
            continue
        driver.undo_all()
        with kprobe(guest, hex(source)):
            outcome = driver.apply([unit])[0]
        assert (outcome.verdict, outcome.detail) == (Verdict.LEADER, target)
        return
    raise AssertionError("no such jump")
