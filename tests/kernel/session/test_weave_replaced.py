# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice in place of functions of a live stock kernel: it mends a driver's faults, which a program checks, and
afterwards the code is what it was."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gilk.api.aspects import read_aspects
from gilk.engines.aspect.weaving import Weaving
from gilk.errors import MachineGone, UsageError
from gilk.lab import Machine, boot
from gilk.targets.kernel.driver_build import headers_of
from gilk.targets.kernel.target import KernelTarget
from gilk.toolchain.kernel_instrument import compile_module
from tests.kernel.conftest import STRICT
from tests.kernel.driver.driving import Guest
from tests.kernel.session.test_session import text_of
from tests.seldom import seldom

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.timeout(1200)]
HERE = Path(__file__).parent
ASKS = HERE / "guest" / "asks_planted.py"
FIX = HERE.parents[2] / "examples" / "aspects" / "fix.aspect"
NUMBERS = ["101:0", "101:1", "101:2", "101:3", "101:4"]
FUNCTIONS = ["planted_ioctl", "planted_note"]
PATIENCE = 240.0  # seconds


@pytest.fixture(scope="module")
def module(exchange: Path, guest: Guest) -> Path:
    name = "gilk_planted"
    files = {"planted": (HERE / "planted.c").read_text()}
    made = compile_module(name, files, f"obj-m := {name}.o\n{name}-y := planted.o\n", headers_of(guest.release))
    path = exchange / f"{name}.ko"
    path.write_bytes(made.content)
    return path


@pytest.fixture(scope="module")
def planted(guest: Guest, module: Path) -> Iterator[KernelTarget]:
    """The kernel with the faulty driver loaded."""
    guest.run("insmod", str(module))
    yield KernelTarget(guest.link)
    guest.link.close_driver()
    guest.run("rmmod", "gilk_planted")


def asked(guest: Guest, mode: str, *what: str) -> list[str]:
    return guest.run(sys.executable, "-I", str(ASKS), mode, *what).split()


@contextmanager
def replaced(kernel: KernelTarget, path: Path) -> Iterator[Weaving]:
    one = Weaving(read_aspects(path), {}, [], kernel=kernel, replaces=True)
    try:
        one.weave()
        yield one
    finally:
        one.unweave()


def written(place: Path, text: str) -> Path:
    path = place / "k.aspect"
    path.write_text(text)
    return path


@pytest.mark.stress
def test_the_example_prevents_a_null_dereference(planted: KernelTarget, guest: Guest) -> None:
    """The kernel of these tests panics at the first oops; the test below shows that it does so without the aspect."""
    before = text_of(planted, FUNCTIONS)
    with replaced(planted, FIX) as one:
        assert text_of(planted, FUNCTIONS) != before
        assert asked(guest, "r", *NUMBERS) == ["ENODEV"] * 5
        assert asked(guest, "w", *NUMBERS) == ["10", "20", "30", "40", "4242"]
    (counts,) = one.counts()
    assert counts.matches == (5,)
    assert [each.restored for each in one.summaries()] == [True]
    assert text_of(planted, FUNCTIONS) == before
    assert not guest.complaints()


@pytest.mark.stress
def test_without_the_example_the_null_dereference_crashes_the_machine(
    module: Path, exchange: Path, tmp_path: Path
) -> None:
    with boot(Machine(cpus=1, arguments=STRICT, rw=(exchange,))) as machine:
        assert machine.run(["insmod", str(module)], timeout=PATIENCE)[0] == 0
        with pytest.raises(MachineGone, match="panicked"):
            machine.run([sys.executable, "-I", str(ASKS), "r", *NUMBERS], timeout=PATIENCE)


MENDED = """
%K{ #include <linux/fs.h> %}
table results key(long) count;
aspect limit: K: call(long planted_ioctl(struct file *f, unsigned cmd, unsigned long arg))
    && if (cmd == 101 && arg > 3)
    then inplace { if (arg == 7) return *(long *)8; report("%s asks for %lu", current->comm, arg); return -EINVAL; };
aspect second: K: call(long planted_ioctl(struct file *f, unsigned cmd, unsigned long arg))
    && if (cmd == 101 && arg == 5)
    then inplace { report("never"); return -EIO; };
aspect noted: K: call(void planted_note(struct file *f, unsigned long arg)) && if (arg == 100) then inplace { return; };
aspect what: K: call(long planted_ioctl(struct file *f, unsigned cmd, unsigned long arg)) && return(r)
    then after { add(results, r, 1); };
aspect other: K: call(long __x64_sys_getpgid(const struct pt_regs *regs)) && if (regs->di == 4194303)
    then inplace { return -EACCES; };
"""
PGID = "import os\ntry: os.getpgid(4194303)\nexcept OSError as error: print(error.errno)"


def test_advice_in_place_decides_the_result_of_a_kernel_function(
    planted: KernelTarget, guest: Guest, tmp_path: Path
) -> None:
    """A number that is too large gets an error from the first advice at the call, and nothing matches at a return
    that did not happen. A function that returns nothing is left out; advice that cannot read its result has the
    function run; a function of the kernel itself is replaced for one argument. Afterwards all is as before."""
    before = text_of(planted, FUNCTIONS)
    assert asked(guest, "w", *NUMBERS, "102:1") == ["10", "20", "30", "40", "4242", "1"]
    with guest.text_untouched(), replaced(planted, written(tmp_path, MENDED)) as one:
        assert asked(guest, "w", *NUMBERS, "101:5") == ["10", "20", "30", "40", "EINVAL", "EINVAL"]
        assert asked(guest, "w", "102:10", "102:100", "102:1000") == ["11", "11", "1011"]
        assert asked(guest, "w", "101:7") == ["7272"]
        assert guest.run(sys.executable, "-I", "-c", PGID) == "13"
        texts = [each.text for each in one.reports()]
        one.refresh()
    assert [each.rpartition(" ")[2] for each in texts] == ["4", "5"]
    assert {each.name: each.matches for each in one.counts()} == {
        "limit": (3,), "second": (1,), "noted": (1,), "what": (8,), "other": (1,)
    }  # fmt: skip
    (table,) = one.tables()
    results = {int.from_bytes(row.key[:8], "little", signed=True): row.count for row in table.rows}
    assert results == {10: 1, 20: 1, 30: 1, 40: 1, 11: 2, 1011: 1, 7272: 1}
    (summary,) = one.summaries()
    assert summary.restored is True and summary.notes[0].startswith("1 times memory")
    assert one.kernel is not None and one.kernel._counted[3] == 0
    assert text_of(planted, FUNCTIONS) == before
    assert asked(guest, "w", "101:4", "102:100") == ["4242", "1111"]
    assert guest.run(sys.executable, "-I", "-c", PGID) == "3"
    assert not guest.complaints()


@pytest.mark.parametrize("times", seldom([1, 3], 1))
def test_a_fix_is_woven_in_and_out_while_a_driver_is_used(
    planted: KernelTarget, guest: Guest, tmp_path: Path, times: int
) -> None:
    """The answer is the function's own or the advice's, and changes whenever the advice comes or goes."""
    said = bytearray()
    words = [sys.executable, "-I", str(ASKS), "forever", "w", "101:4"]
    program = guest.link.spawn(words, said.extend, said.extend, environment=dict(os.environ))

    def told(amount: int) -> None:
        guest.link.channel.until(lambda: said.count(b"\n") >= amount or program.status is not None, PATIENCE)

    path = written(tmp_path, MENDED)
    told(1)
    for n in range(times):
        with replaced(planted, path):
            told(2 + 2 * n)
        told(3 + 2 * n)
    program.signal(signal.SIGKILL)
    program.wait(PATIENCE)
    assert said.decode().split() == ["4242", *["EINVAL", "4242"] * times]
    assert not guest.complaints()


REFUSED = {
    "K: call(void _raw_spin_lock(raw_spinlock_t *lock)) then inplace { };": "it locks",
    "K: call(void schedule(void)) then inplace { };": "it schedules",
    "K: call(void kfree(const void *what)) then inplace { };": "the kernel's memory depends on it",
}


@pytest.mark.parametrize("text", REFUSED)
def test_replacing_functions_that_the_kernel_depends_on_is_refused(
    kernel: KernelTarget, guest: Guest, tmp_path: Path, text: str
) -> None:
    with guest.text_untouched(), pytest.raises(UsageError) as error, replaced(kernel, written(tmp_path, text)):
        pass
    assert error.value.slug == "cannot-weave"
    assert f"is not replaced: {REFUSED[text]}" in error.value.message
