# SPDX-License-Identifier: LGPL-2.1-or-later
"""sdt and cpc in a live stock kernel, beside ftrace's events of the same work and a program's own page faults."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gilk.engines.dtrace.enabling import NoSuchProbe
from gilk.targets.kernel.target import KernelTarget
from gilk.targets.processor_samples import Counted
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import program, ran
from tests.kernel.session.test_d_programs import shell
from tests.kernel.session.test_d_tables import BEGIN, END, SHELL, is_within, traced
from tests.programs.build import compile_to

pytestmark = pytest.mark.xdist_group("lab")
PAGES, READ = 300, 7  # pages that faults.c touches, and those that it has the kernel write to


@pytest.fixture(scope="module")
def faults(exchange: Path) -> Path:
    return compile_to(exchange / "faults", [Path(__file__).with_name("faults.c")], ("-O2", "-static"))


def test_fields_of_events_are_those_that_ftrace_prints(kernel: KernelTarget, guest: Guest) -> None:
    """Numbers, arrays in the record, and a text of any length behind it."""
    shell(guest, BEGIN.format(events="task/task_rename sched/sched_process_exec"))
    text = """
        sdt:task::task_rename /args[0] == pid/
        { printf("rename %d %s %s %d\\n", args[0], stringof(args[1]), stringof(args[2]), args[3]); }
        sdt:sched::sched_process_exec { printf("exec %s %d %d\\n", stringof(args[0]), args[1], arg2); }"""
    done = ran(kernel, text, SHELL)
    said = shell(guest, END)
    assert not done.errors, done.errors
    renamed = [f"rename {one['pid']} {one['oldcomm']} {one['newcomm']} {one['oom_score_adj']}"
               for one in traced(said, "task_rename")]  # fmt: skip
    executed = [f"exec {one['filename']} {one['pid']} {one['old_pid']}" for one in traced(said, "sched_process_exec")]
    assert is_within([line for line in done.lines if line.startswith("exec")], executed, 11)
    assert is_within([line for line in done.lines if line.startswith("rename")], renamed, 11)


def test_stacks_at_events_are_those_at_their_tracepoints(kernel: KernelTarget, faults: Path) -> None:
    """The two reach a clause by different ways, from the same place."""
    text = """
        {0}:task::task_rename /execname == "faults" || execname == "sh"/ {{ stack(); exit(0); }}"""
    found = [ran(kernel, text.format(each), ["sh", "-c", f"exec {faults}"]).lines for each in ("sdt", "rawtp")]
    names = [[line.strip().partition("+")[0] for line in lines if "`" in line] for lines in found]
    assert "vmlinux`begin_new_exec" in names[0] and names[0][-3:] == names[1][-3:] and len(names[0]) > 5
    assert names[0][names[0].index("vmlinux`begin_new_exec") :] == names[1][names[1].index("vmlinux`begin_new_exec") :]


def test_a_field_that_an_event_does_not_have_is_an_error(kernel: KernelTarget) -> None:
    from gilk.engines.dtrace.compiled import DoesNotCompile

    with pytest.raises(DoesNotCompile, match="out of range"):
        ran(kernel, "sdt:task::task_rename { trace(args[4]); }")
    with pytest.raises(NoSuchProbe):
        ran(kernel, "sdt:syscalls::sys_enter_read { }")


def test_page_faults_of_each_mode_are_those_that_the_program_makes(kernel: KernelTarget, faults: Path) -> None:
    text = """
        self int on;
        syscall::getpgid:entry /pid == $target/ { self->on = !self->on; }
        cpc:::page_faults-user-1 /self->on && arg1 && !arg0/ { @["user"] = count(); }
        cpc:::page_faults-kernel-1 /self->on && arg0 && !arg1/ { @["kernel"] = count(); @at[func(arg0)] = count(); }
        cpc:::page_faults-all-1 /self->on/ { @["all"] = count(); }
        cpc:::page_faults-all-100 /self->on/ { @["hundreds"] = count(); }
        END { printa("%s %@d\\n", @); printa("%a\\n", @at); }"""
    done = ran(kernel, text, [str(faults)])
    found = dict(line.split() for line in done.lines if " " in line.strip())
    hundreds = int(found.pop("hundreds"))
    assert found == {"user": str(PAGES), "kernel": str(READ), "all": str(PAGES + READ)}
    assert PAGES // 100 - 1 <= hundreds <= PAGES // 100 + 1
    assert not done.errors and re.search(r"vmlinux`\w*(clear|zero)\w*", "".join(done.lines))


def test_a_clock_of_processors_is_counted(kernel: KernelTarget) -> None:
    text = """
        cpc:::cpu_clock-all-1000000 /execname == "sh" && arg1 && uregs[R_RIP] == arg1/ { @ = count(); n++; }
        cpc:::cpu_clock-all-1000000 /n >= 10/ { exit(0); }"""
    done = ran(kernel, text, ["sh", "-c", "while :; do :; done"])
    assert done.ended and not done.errors and int(done.lines[0]) >= 10


def test_an_event_of_processors_is_refused_where_there_is_none(kernel: KernelTarget) -> None:
    cycles = "cpc:::cpu_cycles-all-1000000"
    if kernel.counts(Counted(0, 0, 1_000_000)):
        assert ran(kernel, f"{cycles} {{ exit(0); }}").ended
        return
    with pytest.raises(NoSuchProbe, match="does not count such events"):
        program(kernel, f"{cycles} {{ exit(0); }}")


def test_segments_and_the_last_trap_are_those_of_the_task(kernel: KernelTarget, faults: Path) -> None:
    """The program has been signalled for a page fault (14): it wrote (2) in user space (4) where no page was (0)."""
    text = """
        syscall::getsid:entry /pid == $target/ {
            printf("%x %x %x\\n", uregs[R_CS], uregs[R_SS], uregs[R_DS] | uregs[R_ES] | uregs[R_GS]);
            printf("%d\\n", *(uint64_t *)copyin(uregs[R_FS], 8) == uregs[R_FS]);
            printf("%d %d\\n", uregs[R_TRAPNO], uregs[R_ERR]); }"""
    assert ran(kernel, text, [str(faults)]).lines == ["33 2b 0", "1", "14 6"]
