# SPDX-License-Identifier: LGPL-2.1-or-later
"""Safeguards that keep clauses in a kernel from harm, each beside its negative control: a driver that leaves it out
(ilk/omit.h) brings the machine down, or its counts are wrong."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gilk.errors import TargetError
from gilk.lab import Machine, boot
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.conftest import STRICT
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import Ran, ran

pytestmark = pytest.mark.xdist_group("lab")
DEEP = "gilk_test_deep"
LEFT = "1000"  # bytes of stack: enough for the way into the driver, too little for a walk of the stack
CALLS = "import os\nfor _ in range({count}): os.getpgid(0)\nos.getsid(0)"  # the last call ends the program
DROPPED = re.compile(r"(\d+) nested firing")


@dataclass(frozen=True)
class Safeguard:
    """A program for which it matters, and what is done while the program runs. ``omit``: its number in ilk/omit.h."""

    omit: int
    text: str
    work: Callable[[Guest], object] = lambda guest: None


def calls(guest: Guest) -> None:
    guest.run(sys.executable, "-c", CALLS.format(count=1))


def many_calls(guest: Guest) -> None:
    guest.run(sys.executable, "-c", CALLS.format(count=50_000))


def descend(guest: Guest) -> None:
    guest.write(f"/sys/module/{DEEP}/parameters/left", LEFT)
    calls(guest)


NESTING = Safeguard(
    8,
    """syscall::getpgid:entry { @ = count(); self->in = 1; this->depth = stackdepth; self->in = 0; }
    fbt::__unwind_start:entry /self->in/ { @ = count(); this->depth = stackdepth; }
    syscall::getsid:entry { exit(0); } END { printa("%@d\\n", @); }""",
    calls,
)
STACK = Safeguard(
    16,
    f"""fbt:{DEEP}:gilk_test_bottom:entry {{ @[stack()] = count(); }}
    syscall::getsid:entry {{ exit(0); }} END {{ printa("%@d\\n", @); }}""",
    descend,
)
RANGE = Safeguard(32, "BEGIN { trace(*(int *)0x1000); } BEGIN { exit(0); }")
FIXUP = Safeguard(64, "BEGIN { trace(*(int *)0xfffffffffefff000); } BEGIN { exit(0); }")  # where modules could be
INTERRUPTS = Safeguard(
    128,
    """syscall::getpgid:entry { @[stack(), ustack()] = count(); @by[strjoin(execname, probefunc)] = count(); }
    profile-4999 { @ticks = count(); } syscall::getsid:entry { exit(0); }
    END { trunc(@); trunc(@by); printa("%@d\\n", @ticks); }""",
    many_calls,
)


def deep(guest: Guest, place: Path) -> None:
    """Load the module whose function is called with little stack left."""
    guest.run("insmod", str(guest.module_of(Path(__file__).parent / "guest" / DEEP, place)))


@pytest.fixture
def descending(guest: Guest, tmp_path: Path) -> Iterator[Guest]:
    deep(guest, tmp_path)
    yield guest
    guest.link.close_driver()
    guest.run("rmmod", DEEP)


def run(guest: Guest, safeguard: Safeguard) -> Ran:
    return ran(KernelTarget(guest.link), safeguard.text, work=lambda: safeguard.work(guest))


def test_a_clause_that_its_own_work_would_fire_is_dropped(guest: Guest) -> None:
    done = run(guest, NESTING)
    assert done.lines == ["1"] and DROPPED.search(done.errors)
    assert not guest.complaints()


def test_a_clause_without_stack_is_dropped(descending: Guest) -> None:
    done = run(descending, STACK)
    assert done.lines == [] and "1 firing dropped, as no stack was left" in done.errors
    assert not descending.complaints()


@pytest.mark.parametrize("safeguard", [RANGE, FIXUP], ids=["range", "fixup"])
def test_an_address_of_no_memory_is_a_fault_of_the_clause(guest: Guest, safeguard: Safeguard) -> None:
    done = run(guest, safeguard)
    assert done.lines == [] and "invalid address" in done.errors
    assert not guest.complaints()


@pytest.mark.stress
def test_no_interrupt_finds_a_clause_of_a_site_running(guest: Guest) -> None:
    done = run(guest, INTERRUPTS)
    assert int(done.lines[-1]) > 0 and not done.errors
    assert not guest.complaints()


@contextmanager
def without(safeguard: Safeguard, place: Path) -> Iterator[Guest]:
    """A machine of its own with a driver that leaves the safeguard out."""
    with boot(Machine(cpus=2, arguments=STRICT, rw=(place,))) as vm:
        guest = Guest(vm, place)
        guest.load(f"omit={safeguard.omit}")
        if safeguard is STACK:
            deep(guest, place)
        yield guest


@pytest.mark.stress
@pytest.mark.parametrize("safeguard", [STACK, RANGE, FIXUP], ids=["stack", "range", "fixup"])
def test_without_it_the_kernel_goes_down(tmp_path: Path, safeguard: Safeguard) -> None:
    with pytest.raises(TargetError) as caught, without(safeguard, tmp_path) as guest:
        run(guest, safeguard)
    assert caught.value.slug == "lab-panic"


@pytest.mark.stress
def test_without_the_nesting_flag_counts_are_wrong(tmp_path: Path) -> None:
    """Clauses run for their own work then, in the frame of the one that does it."""
    with without(NESTING, tmp_path) as guest:
        assert run(guest, NESTING).lines != ["1"]


@pytest.mark.stress
def test_with_interrupts_on_clauses_find_others_running(tmp_path: Path) -> None:
    with without(INTERRUPTS, tmp_path) as guest:
        dropped = DROPPED.search(run(guest, INTERRUPTS).errors)
        assert dropped and int(dropped[1]) > 0
