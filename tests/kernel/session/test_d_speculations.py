# SPDX-License-Identifier: LGPL-2.1-or-later
"""Speculations of D programs in a live kernel: a committed one comes out, complete and once; others never do."""

from __future__ import annotations

from pathlib import Path

import pytest

from gilk.errors import TargetError, UsageError
from gilk.targets.kernel.d_messages import DriverProgram
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import ran

pytestmark = pytest.mark.xdist_group("lab")
TIMES = 300
NUMBERS = range(0x1000, 0x1000 + TIMES)  # the program calls getpgid() with these numbers


def test_committed_speculations_are_printed(kernel: KernelTarget, calls: Path) -> None:
    """One speculation is enough for all calls, as each gives it back at once."""
    text = """
        syscall::getpgid:entry /pid == $target/ { self->s = speculation(); self->n = arg0; }
        syscall::getpgid:entry /self->s/ { speculate(self->s); printf("%d %s\\n", arg0, probefunc); }
        syscall::getpgid:return /self->s && self->n % 3 == 0/ { commit(self->s); }
        syscall::getpgid:return /self->s && self->n % 3 != 0/ { discard(self->s); }
        syscall::getpgid:return /self->s/ { self->s = 0; }"""
    done = ran(kernel, text, [str(calls), str(TIMES)])
    assert done.lines == [f"{number} getpgid" for number in NUMBERS if number % 3 == 0]
    assert not done.errors and done.restored


def test_many_records_are_committed_in_their_order(kernel: KernelTarget, calls: Path) -> None:
    """These are more records than a clause moves itself: the driver moves them when the client asks for more
    records."""
    text = """
        BEGIN { s = speculation(); }
        syscall::getpgid:entry /pid == $target/ { speculate(s); printf("%d\\n", arg0); }
        syscall::exit_group:entry /pid == $target/ { commit(s); }"""
    done = ran(kernel, text, [str(calls), str(TIMES)])
    assert done.lines == [str(number) for number in NUMBERS]
    assert not done.errors


@pytest.mark.parametrize("action", ["discard(s)", "x = s"])
def test_uncommitted_speculations_are_never_printed(kernel: KernelTarget, calls: Path, action: str) -> None:
    text = f"""
        BEGIN {{ s = speculation(); }}
        syscall::getpgid:entry /pid == $target/ {{ speculate(s); printf("%d\\n", arg0); }}
        syscall::exit_group:entry /pid == $target/ {{ {action}; }}
        END {{ printf("end\\n"); }}"""
    done = ran(kernel, text, [str(calls), str(TIMES)])
    assert done.lines == ["end"] and not done.errors


def test_unavailable_speculations_are_counted_and_reported(kernel: KernelTarget, calls: Path) -> None:
    text = """
        syscall::getpgid:entry /pid == $target/ { n += speculation() != 0; }
        END { printf("%d\\n", n); }"""
    done = ran(kernel, text, [str(calls), str(TIMES)], nspec="4")
    assert done.lines == ["4"]
    told = [line.split() for line in done.errors.splitlines()]
    assert all(line[2:4] == ["failed", "speculations"] or line[2:4] == ["failed", "speculation"] for line in told)
    assert sum(int(line[1]) for line in told) == TIMES - 4
    assert "(no speculative buffer available)" in done.errors


def test_records_that_do_not_fit_into_a_speculation_are_counted_and_reported(kernel: KernelTarget, calls: Path) -> None:
    text = """
        BEGIN { s = speculation(); }
        syscall::getpgid:entry /pid == $target/ { speculate(s); printf("%d\\n", arg0); }
        syscall::exit_group:entry /pid == $target/ { commit(s); }"""
    done = ran(kernel, text, [str(calls), str(TIMES)], specsize="4k")
    fit = 4096 // 64  # a record's head takes 64 bytes with its eight bytes of data
    assert done.lines == [str(number) for number in NUMBERS[:fit]]
    assert sum(int(line.split()[1]) for line in done.errors.splitlines()) == TIMES - fit
    assert "speculative drop" in done.errors


def test_settling_without_a_program_is_an_error(kernel: KernelTarget, guest: Guest) -> None:
    with pytest.raises(TargetError):
        DriverProgram(Driver(guest.link)).settle()
    guest.link.close_driver()


def test_too_many_speculations_are_refused(kernel: KernelTarget) -> None:
    with pytest.raises(UsageError, match="nspec is 257") as caught:
        ran(kernel, "BEGIN { trace(speculation()); exit(0); }", nspec="257", specsize="4k")
    assert caught.value.slug == "not-in-kernel"
