# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory that clauses in a kernel allocate, and memory that they write in processes, as the processes see it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gilk.errors import TargetError
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import program, ran
from tests.programs.build import compile_to

pytestmark = pytest.mark.xdist_group("lab")
TIMES = 20
FRAMES = ("-O0", "-fno-omit-frame-pointer")
CHILL = 50  # ms
CPUS = 2


@pytest.fixture(scope="module")
def written(exchange: Path) -> Path:
    return compile_to(exchange / "written", [Path(__file__).with_name("written.c")], FRAMES)


def test_a_process_sees_what_copyout_wrote(
    kernel: KernelTarget, guest: Guest, written: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is memory that the process has written to, that it has never touched, that is on two pages, and that it
    passes to a system call."""
    text = """
        pid$target:a.out:shown:entry {
            this->n = (int *)alloca(8); this->n[0] = 4000; *(this->n + 1) = 711; this->n[0] += this->n[1];
            copyout(this->n, arg1 + 4094, 4); copyoutstr("by D", arg0, 64); copyoutstr("cut off", arg1, 3);
            @n["function"] = count(); }
        syscall::getpgid:entry /pid == $target/ { copyoutstr(strjoin(execname, "!"), arg0, 64); @n["call"] = count(); }
        END { printa("%s %@d\\n", @n); }"""
    done = ran(kernel, text, [str(written), str(TIMES)], destructive="")
    assert sorted(done.lines) == [f"call {TIMES}", f"function {TIMES}"] and not done.errors
    assert capfd.readouterr().out.split() == ["by", f"D|written!|cuta|constant|{TIMES * 4711}"]
    assert not guest.complaints()


def test_alloca_bcopy_and_copyin_use_scratch_memory(kernel: KernelTarget, guest: Guest, written: Path) -> None:
    """The bytes come from the process, from the kernel, and from a string, and are read in parts, down to
    bit-fields."""
    text = """
        struct bits { unsigned int low : 3; int high : 5; };
        syscall::getpgid:entry /pid == $target/ {
            this->s = (char *)alloca(16); copyinto(arg0, 8, this->s);
            this->t = (char *)alloca(16); bcopy("kernel", this->t, 16); this->t[0] = 'K';
            this->c = (char *)alloca(16); bcopy(curthread->comm, this->c, 16);
            this->b = (struct bits *)alloca(4); this->b->low = 9; this->b->high = -3; this->b->high--;
            @[stringof(this->s), stringof(this->t), stringof(this->c), this->b->low, this->b->high] = count(); }
        END { printa("%s %s %s %d %d %@d\\n", @); }"""
    done = ran(kernel, text, [str(written), str(TIMES)], clausetime="200000")
    assert done.lines == [f"asks Kernel written 1 -4 {TIMES}"] and not done.errors
    assert not guest.complaints()


BAD = {
    "alloca(5000)": "out of scratch space",
    "this->p = alloca(8); this->q = alloca(4090)": "out of scratch space",
    "bcopy(curthread, alloca(8), 16)": "invalid size",
    "bcopy(curthread, alloca(8), 5000)": "invalid size",
    "bcopy(curthread, alloca(8), -1)": "invalid size",
    "bcopy((void *)0xdead000000000100, alloca(8), 8)": "invalid address",
    "copyinto(0x10, 8, alloca(8))": "invalid address",
    "this->l = (long *)curthread; *this->l = 0": "invalid address",
    "this->l = (long *)(uintptr_t)&`init_task; *this->l = 0": "invalid address",
    "this->l = (long *)alloca(8); this->l[1] = 0": "invalid address",
    "this->l = (long *)((char *)alloca(8) - 1); *this->l = 0": "invalid address",
    "copyout(alloca(8), (uintptr_t)curthread, 8)": "invalid address",
    "copyout(alloca(8), (uintptr_t)&`init_task, 8)": "invalid address",
    "copyout(alloca(8), 0xffffffffff600000, 8)": "invalid address",
    "copyout(alloca(16), 0x7ffffffffff8, 16)": "invalid address",
    "copyout(alloca(8), arg0, 16)": "invalid size",
    "copyout(alloca(8), 0x10, 8)": "invalid address",
    "copyout((void *)0x10, arg0, 8)": "invalid address",
    "copyout(curthread, arg0, 5000)": "invalid size",
    'copyoutstr("x", 0x10, 2)': "invalid address",
    "chill(500000001)": "illegal operation",
    "chill(-1)": "illegal operation",
}


def test_impossible_loads_and_stores_are_faults(
    kernel: KernelTarget, guest: Guest, written: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The later clauses run; the process, and the kernel, are as they were."""
    clauses = [f"syscall::getpgid:entry /pid == $target/ {{ {each}; trace(1); }}" for each in BAD]
    text = "\n".join([*clauses, 'syscall::getpgid:entry /pid == $target/ { printf("behind\\n"); }'])
    done = ran(kernel, text, [str(written), "1"], destructive="", clausetime="1000000")
    told = [line for line in done.errors.splitlines() if "error in" in line]
    assert len(told) == len(BAD) and done.lines == ["behind"]
    for number, why in enumerate(BAD.values()):
        (line,) = [line for line in told if f"dt_clause_{number} " in line]
        assert why in line, (list(BAD)[number], line)
    assert capfd.readouterr().out == "own|asks|data|constant|0\n"
    assert not guest.complaints()


def test_copyout_to_memory_that_may_not_be_written_is_a_fault(
    kernel: KernelTarget, guest: Guest, written: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is memory that the process may only read, and that of gilk, which fires BEGIN itself."""
    text = """
        BEGIN { copyout(alloca(8), uregs[R_RSP], 8); trace(1); }
        pid$target:a.out:shown:entry { copyoutstr("no", arg2, 3); trace(1); }
        fbt::do_msgsnd:entry { }"""
    done = ran(kernel, text, [str(written), "3"], destructive="")
    assert not done.lines and done.errors.count("invalid address") == 4
    assert capfd.readouterr().out == "own|asks|data|constant|0\n"
    assert not guest.complaints()


def test_a_chill_lasts_as_long_as_asked_and_is_limited(kernel: KernelTarget, guest: Guest, written: Path) -> None:
    """A processor chills for at most half a second in each second, however often it is asked to."""
    text = f"""
        BEGIN {{ begun = timestamp; }}
        syscall::getpgid:entry /pid == $target/ {{ self->t = timestamp; self->told = 0; }}
        syscall::getpgid:entry /pid == $target/ {{ chill({CHILL}000000); self->told = 1; @n["done"] = count(); }}
        syscall::getpgid:return /self->told/ {{ @least = min(timestamp - self->t); }}
        syscall::getpgid:return /pid == $target/ {{ @n["all"] = count(); self->t = 0; self->told = 0; }}
        END {{ printa("%s %@d\\n", @n); printa("least %@d\\n", @least); printf("lasted %d\\n", timestamp - begun); }}"""
    done = ran(kernel, text, [str(written), str(TIMES)], destructive="")
    told = {line.split()[0]: int(line.split()[1]) for line in done.lines}
    assert told["all"] == TIMES and told["done"] + done.errors.count("illegal operation") == TIMES
    assert told["least"] >= CHILL * 1_000_000
    windows = CPUS * (told["lasted"] // 1_000_000_000 + 1)
    assert 1 <= told["done"] <= windows * (500 // CHILL)
    assert not guest.complaints()


@pytest.mark.parametrize("deed", ["copyout(alloca(8), arg0, 8)", 'copyoutstr("x", arg0, 2)', "chill(1)"])
def test_destructive_code_in_a_program_not_marked_so_is_refused(kernel: KernelTarget, guest: Guest, deed: str) -> None:
    consumer, _ = program(kernel, f"syscall::getpgid:entry {{ {deed}; }}")
    with pytest.raises(TargetError, match="clause 1: bad deed"):
        consumer.start()
    guest.link.close_driver()
    assert not guest.complaints()
