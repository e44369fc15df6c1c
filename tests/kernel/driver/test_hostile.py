# SPDX-License-Identifier: LGPL-2.1-or-later
"""Wrong messages, and clients that go at the wrong time, do no harm to the kernel."""

from __future__ import annotations

import signal

import pytest

from tests.kernel.driver.driving import Guest

pytestmark = pytest.mark.xdist_group("lab")
TARGETS = ("__x64_sys_getppid", "__x64_sys_getpgrp", "__x64_sys_getuid", "vfs_read")


def fuzz(guest: Guest, seed: int, rounds: int) -> tuple[int, int]:
    places = [hex(guest.symbols[name]) for name in TARGETS]
    taken, refused = guest.run(str(guest.compiled("fuzz")), str(seed), str(rounds), *places).split()
    return int(taken), int(refused)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.stress)])
def test_wrong_messages_do_no_harm(guest: Guest, seed: int) -> None:
    with guest.text_untouched():
        taken, refused = fuzz(guest, seed, 300)
        assert taken > 100 and refused > 100
    assert guest.complaints() == ""


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_many_wrong_messages_do_no_harm(guest: Guest) -> None:
    with guest.text_untouched():
        for seed in range(100, 120):
            fuzz(guest, seed, 1000)
    assert guest.complaints() == ""


def test_a_client_may_be_killed_at_any_time(guest: Guest) -> None:
    with guest.text_untouched():
        for turn in range(5):
            process = guest.link.spawn(
                [str(guest.compiled("fuzz")), str(turn + 50), "100000", hex(guest.symbols[TARGETS[0]])],
                lambda _: None, lambda _: None,
            )  # fmt: skip
            assert process.wait(0.2 + 0.3 * turn) is None
            process.signal(signal.SIGKILL)
            assert process.wait(60) is not None
    assert guest.complaints() == ""


@pytest.mark.timeout(300)
def test_a_client_killed_while_its_units_are_checked_changes_nothing(guest: Guest) -> None:
    """Nothing of a large message is written then: the kill takes effect before all of it was carried out."""
    function = guest.function("__x64_sys_getppid")
    run = function.window(10, several=True)
    with guest.text_untouched():
        out = guest.run(str(guest.compiled("large")), hex(run[0].ip), function.bytes_of(*run).hex())
    assert out.split()[1] == "1", f"in {out.split()[0]} rounds all was carried out first"
