# SPDX-License-Identifier: LGPL-2.1-or-later
"""Wrong messages about D programs, code that was tampered with, and clients that go in the middle do no harm."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from gilk.targets.kernel.driver import Driver
from tests.kernel.driver.driving import Guest
from tests.kernel.driver.program_message import program_message
from tests.seldom import seldom

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.stock]
TARGETS = ("__x64_sys_getppid", "vfs_read")
PROGRAM = """
BEGIN { a[arg0 & 7] = arg1; @[arg0 & 63] = count(); @q = quantize(arg1); x += arg2; trace(arg0); }
BEGIN /arg0 != 3/ { s = speculation(); speculate(s); printf("%d %s", arg1, "text"); }
BEGIN { commit(s); }
BEGIN { @l[a[arg0 & 7]] = lquantize(arg0, 0, 100, 10); name = strjoin("ab", "cd"); trace(strlen(name)); }
BEGIN { trace(arg3 / (arg4 & 1)); }
tick-1s { self->t = timestamp; self->t = 0; @sum[execname] = sum(arg0); discard(s); }
tick-2s { exit(arg0); }
"""


@pytest.fixture(scope="module")
def message(guest: Guest, exchange: Path) -> Path:
    path = exchange / "program.message"
    path.write_bytes(program_message(PROGRAM, processors=Driver(guest.link).hello.cpus))
    guest.link.close_driver()
    return path


def words(guest: Guest, message: Path, seed: int, rounds: int) -> list[str]:
    places = [hex(guest.symbols[name]) for name in TARGETS]
    return [str(guest.compiled("fuzz_d")), str(seed), str(rounds), str(message), *places]


@pytest.mark.parametrize(("seed", "rounds"), seldom([(1, 600), (1, 3000), (2, 3000)], 1))
def test_wrong_messages_about_d_programs_do_no_harm(guest: Guest, message: Path, seed: int, rounds: int) -> None:
    with guest.text_untouched():
        taken, refused, whole, changed, uprobes = map(int, guest.run(*words(guest, message, seed, rounds)).split())
        assert min(taken, refused) > rounds // 3 and min(whole, changed, uprobes) > rounds // 300
    assert guest.complaints() == ""


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_many_wrong_messages_about_d_programs_do_no_harm(guest: Guest, message: Path) -> None:
    with guest.text_untouched():
        for seed in range(100, 120):
            guest.run(*words(guest, message, seed, 10000))
    assert guest.complaints() == ""


def test_a_client_with_a_d_program_may_be_killed_at_any_time(guest: Guest, message: Path) -> None:
    with guest.text_untouched():
        for turn in range(5):
            process = guest.link.spawn(words(guest, message, turn + 50, 10000000), lambda _: None, lambda _: None)
            assert process.wait(0.2 + 0.3 * turn) is None
            process.signal(signal.SIGKILL)
            assert process.wait(60) is not None
    assert guest.complaints() == ""
