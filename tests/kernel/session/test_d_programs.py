# SPDX-License-Identifier: LGPL-2.1-or-later
"""D programs in a live stock kernel: their counts, times and records agree with ftrace, /proc and the program."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from gilk.engines.dtrace.enabling import NoSuchProbe
from gilk.engines.dtrace.kernel_clauses import printed
from gilk.errors import UsageError
from gilk.targets.kernel.d_messages import CodeVerdict, DriverProgram
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.target import KernelTarget
from gilk.trace.d.layout import LAYOUT_FIELDS
from gilk.trace.d.memory import MemoryOptions
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import program, ran
from tests.kernel.session.test_session import MESSAGES, present, text_of

pytestmark = pytest.mark.xdist_group("lab")
TIMES = 300
TRACING = """\
mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing
cd /sys/kernel/tracing
for name in {names}; do echo $name; done > set_ftrace_filter
echo > trace
echo function > current_tracer
"""
# A reader of the trace calls functions of its own: as long as ftrace records them, it never reaches the end.
TOLD = """\
cd /sys/kernel/tracing
echo 0 > tracing_on
cat trace
echo nop > current_tracer
echo > set_ftrace_filter
echo 1 > tracing_on
"""
PRINT_KEYS = 'END { printa("%s %@d\\n", @); }'


def shell(guest: Guest, script: str) -> str:
    status, out, said = guest.vm.run(["sh", "-c", script])
    assert status == 0, said
    return out.decode()


def counted(lines: list[str]) -> dict[str, int]:
    """The counts by key; each line is ``KEY COUNT``."""
    return {key: int(count) for key, _, count in (line.rpartition(" ") for line in lines)}


def traced(guest: Guest) -> Counter[str]:
    """The hits of the program that ftrace has recorded since, by function."""
    return Counter(re.findall(r"^ *calls-\d+ .*: (\S+) <-", shell(guest, TOLD), re.MULTILINE))


def test_entries_are_those_that_ftrace_counts(kernel: KernelTarget, guest: Guest, calls: Path) -> None:
    names = ["__x64_sys_getpgid", *present(kernel, MESSAGES)]
    before = text_of(kernel, names)
    probes = ", ".join(f"fbt::{name}:entry" for name in names)
    shell(guest, TRACING.format(names=" ".join(names)))
    text = f'{probes} /execname == "calls"/ {{ @[probefunc] = count(); }} {PRINT_KEYS}'
    done = ran(kernel, text, [str(calls), str(TIMES)])
    assert counted(done.lines) == traced(guest)
    assert counted(done.lines)["__x64_sys_getpgid"] == TIMES
    assert done.restored and not done.errors
    assert text_of(kernel, names) == before


def test_system_calls_are_those_that_the_program_makes(kernel: KernelTarget, calls: Path) -> None:
    for side in ("entry", "return"):
        text = f"syscall:::{side} /pid == $target/ {{ @[probefunc] = count(); }} {PRINT_KEYS}"
        done = ran(kernel, text, [str(calls), str(TIMES)])
        found = counted(done.lines)
        assert (found["getpgid"], found["msgsnd"], found["msgrcv"], found["msgget"]) == (TIMES, TIMES, TIMES, 1)
        assert ("exit_group" in found) == (side == "entry")


def test_arguments_and_results_are_those_of_the_calls(kernel: KernelTarget, calls: Path) -> None:
    """The program calls getpgid(0x1000 + i), of processes that do not exist: -ESRCH."""
    text = """
        syscall::getpgid:entry /pid == $target/ { @low = min(arg0); @high = max(arg0); @all = sum(arg0); }
        syscall::getpgid:return /pid == $target/ { @errors[errno, (int)arg1] = count(); }
        fbt::do_msgsnd:entry /pid == $target/ { @size[arg3] = count(); }
        fbt::do_msgsnd:return /pid == $target/ { @result[(int)arg1] = count(); }
        END {
            printa("%@d\\n", @low); printa("%@d\\n", @high); printa("%@d\\n", @all); printa("%d %d %@d\\n", @errors);
            printa("%d %@d\\n", @size); printa("%d %@d\\n", @result);
        }"""
    done = ran(kernel, text, [str(calls), str(TIMES)])
    total = sum(range(0x1000, 0x1000 + TIMES))
    assert done.lines == [
        str(0x1000), str(0x1000 + TIMES - 1), str(total), f"3 -3 {TIMES}", f"100 {TIMES}", f"0 {TIMES}",
    ]  # fmt: skip


def test_every_entry_has_its_return(kernel: KernelTarget, calls: Path) -> None:
    text = """
        fbt::do_msgsnd:entry { self->t = timestamp; }
        fbt::do_msgsnd:return /self->t/ { @times = quantize(timestamp - self->t); @n = count(); self->t = 0; }
        fbt::do_msgsnd:return { @returns = count(); @left[self->t] = count(); }
        END { printa("%@d\\n", @n); printa("%@d\\n", @returns); printa("%d %@d\\n", @left); }"""
    done = ran(kernel, text, [str(calls), str(TIMES)])
    assert done.lines[:3] == [str(TIMES), str(TIMES), f"0 {TIMES}"]
    assert not done.errors


def test_bytes_read_are_those_that_the_program_asked_for(kernel: KernelTarget, guest: Guest) -> None:
    """vfs_read() returned the bytes that dd asked for, in as many calls."""
    text = """
        fbt::vfs_read:return /pid == $target && (long)arg1 > 0/ { @ = sum((long)arg1); }
        fbt::vfs_read:entry /pid == $target/ { @calls = count(); }
        END { printa("%@d\\n", @); printa("%@d\\n", @calls); }"""
    done = ran(kernel, text, ["dd", "if=/dev/zero", "of=/dev/null", "bs=777", "count=100", "status=none"])
    total, calls = map(int, done.lines)
    libraries = ran(kernel, text, ["dd", "if=/dev/zero", "of=/dev/null", "bs=777", "count=0", "status=none"])
    without, fewer = map(int, libraries.lines)
    assert (total - without, calls - fewer) == (77700, 100)


def test_records_have_the_values_that_clauses_computed(kernel: KernelTarget, calls: Path) -> None:
    """The clauses have predicates, arithmetic, associative arrays, and strings of the task and of its memory."""
    text = """
        syscall::getpgid:entry /pid == $target && arg0 % 100 == 0 && execname == "calls"/ {
            seen[arg0] = ++this->n + n++;
            printf("%s %s %d %d %d\\n", execname, probefunc, arg0, seen[arg0], tid == pid);
        }"""
    done = ran(kernel, text, [str(calls), str(TIMES)])
    numbers = [number for number in range(0x1000, 0x1000 + TIMES) if number % 100 == 0]
    assert done.lines == [f"calls getpgid {number} {1 + at} 1" for at, number in enumerate(numbers)]


def test_strings_are_read_from_the_process(kernel: KernelTarget) -> None:
    text = """syscall::openat:entry /pid == $target/ { self->name = copyinstr(arg1); }
        syscall::openat:return /pid == $target && (int)arg1 < 0 && errno == 2/ { printf("%s\\n", self->name); }
        syscall::openat:return { self->name = 0; }"""
    done = ran(kernel, text, ["cat", "/no/such/file"])
    assert "/no/such/file" in done.lines


def test_progeny_are_the_children_of_children(kernel: KernelTarget) -> None:
    """The commands of a shell that a shell runs count; other processes that execute meanwhile do not."""
    text = """
        proc:::exec-success /progenyof($target)/ { printf("%s\\n", execname); }
        proc:::exec-success /!progenyof($target) && ppid == $target/ { @wrong = count(); }
        END { printa("wrong %@d\\n", @wrong); }"""
    done = ran(kernel, text, ["sh", "-c", "sh -c 'cat /proc/version; true' | wc -c; true"])
    assert sorted(done.lines) == ["cat", "sh", "sh", "wc"]


def test_strings_are_searched_and_taken_apart(kernel: KernelTarget) -> None:
    """The strings are a file's name in the process's memory, and device numbers in the kernel's."""
    text = """
        syscall::openat:entry /pid == $target && strstr(copyinstr(arg1), "such") != NULL/ {
            this->name = copyinstr(arg1);
            printf("%s %d %d %d %c\\n", strstr(this->name, "such"), index(this->name, "/"), rindex(this->name, "/"),
                index(this->name, "fil", 4), this->name[1]);
            printf("%s %s\\n", strtok(this->name, "/"), strtok(NULL, "/"));
            printf("%s\\n", strtok(NULL, "/"));
        }
        fbt::vfs_read:entry /pid == $target/ {
            this->device = args[0]->f_inode->i_sb->s_dev;
            devices[getmajor(this->device) << 20 | getminor(this->device)] = this->device;
            wrong += devices[this->device] != this->device;
        }
        END { printf("%d\\n", wrong); }"""
    done = ran(kernel, text, ["cat", "/no/such/file"], clausetime="200000")
    assert done.lines == ["such/file 0 8 9 n", "no such", "file", "0"]


def test_begin_and_end_fire_once(kernel: KernelTarget) -> None:
    text = """
        BEGIN { printf("%d\\n", 6 * 7); }
        tick-50ms { n++; }
        tick-50ms /n == 4/ { exit(5); }
        END { printf("%d\\n", n); }"""
    done = ran(kernel, text)
    assert (done.lines, done.status) == (["42", "4"], 5)


def test_begin_runs_before_any_other_probe_fires(kernel: KernelTarget) -> None:
    """The client itself makes system calls in the kernel while it lets the program begin."""
    done = ran(kernel, "BEGIN { trace(1); exit(3); } syscall:::entry { trace(2); exit(4); }")
    assert (done.lines, done.status) == (["1"], 3)


def test_profile_fires_on_every_processor(kernel: KernelTarget, guest: Guest) -> None:
    """Each processor has a timer of its own, idle or not. The test waits for ten firings on each."""
    text = """
        profile-97 { @[cpu] = count(); seen[cpu]++; }
        profile-97 /seen[0] >= 10 && seen[1] >= 10/ { exit(0); }
        END { printa("%d %@d\\n", @); }"""
    done = ran(kernel, text)
    assert {line.split()[0] for line in done.lines} == {"0", "1"}
    assert min(int(line.split()[1]) for line in done.lines) >= 10


def test_a_fault_is_reported_and_ends_only_its_clause(kernel: KernelTarget, calls: Path) -> None:
    text = """
        syscall::msgget:entry /pid == $target/ { trace(arg0 / (arg0 - arg0)); }
        syscall::msgget:entry /pid == $target/ { trace(*(int *)0x10); }
        syscall::msgget:entry /pid == $target/ { trace(*(long *)0xffffffffff600000); }
        syscall::msgget:entry /pid == $target/ { printf("behind\\n"); }
        ERROR { printf("%d %d\\n", arg1 == 4, arg4); }"""
    done = ran(kernel, text, [str(calls), "1"])
    assert sorted(done.lines) == ["1 1", "1 1", "1 4", "behind"]
    assert done.errors.count("invalid address") == 2 and done.errors.count("divide-by-zero") == 1


def test_actions_that_a_kernel_lacks_are_refused_by_name(kernel: KernelTarget) -> None:
    with pytest.raises(UsageError) as caught:
        ran(kernel, "BEGIN { } fbt::vfs_read:entry { trace(fdflags(1)); }")
    assert caught.value.slug == "not-in-kernel"
    assert caught.value.message == "clause 2 cannot run in a kernel: fdflags()"


def test_an_unknown_provider_is_refused(kernel: KernelTarget) -> None:
    with pytest.raises(NoSuchProbe, match="does not match any probes"):
        program(kernel, "nonesuch::vfs_read:entry { }")


def test_a_clause_that_may_take_too_long_is_refused_by_name(kernel: KernelTarget) -> None:
    text = "BEGIN { trace(1); } BEGIN { " + "@[execname] = count(); " * 20 + "}"
    with pytest.raises(UsageError) as caught:
        ran(kernel, text, clausetime="10000")
    assert caught.value.slug == "clause-too-long" and "clause 2 " in caught.value.message


def test_code_that_was_tampered_with_does_not_run(kernel: KernelTarget, guest: Guest) -> None:
    consumer, _ = program(kernel, "BEGIN { trace(1); exit(0); }")
    made, enabled = consumer.compiled.program, consumer.enabled
    code = printed(made, enabled, enabled.groups(), consumer.options)
    layout = MemoryOptions(2, scratches=0, aggregations=1, globals_size=512).layout()
    fields = [int(getattr(layout, name)) for name in LAYOUT_FIELDS]
    driver = Driver(guest.link)
    bad = {
        CodeVerdict.BAD_FORM: b"\xc3" + code.code[1:],
        CodeVerdict.BAD_FRAME: b"\x48\x89\x83\x00\x20\x00\x00" + code.code,
        CodeVerdict.BAD_BRANCH: b"\xe9\xf0\xff\xff\xff" + code.code,
        CodeVerdict.BAD_CALL: b"\x48\x89\xdf\xe8\xff\x00\x00\x00" + code.code,
        CodeVerdict.BAD_END: b"\x48\x85\xc0",
    }
    for verdict, tampered in bad.items():
        entries = tuple(0 for _ in code.entries)
        there = DriverProgram(driver)
        assert there.load(replace(code, code=tampered, entries=entries), fields, 50_000)[0] is verdict
        with pytest.raises(Exception, match="driver"):
            there.fire(0, 1, always=True)  # there is no program
    assert DriverProgram(driver).load(code, fields, 50_000)[0] is CodeVerdict.SOUND
    guest.link.close_driver()


def test_everything_is_removed_with_the_client(kernel: KernelTarget, guest: Guest, calls: Path) -> None:
    """The client goes in the middle of its work without a message, as if it were killed."""
    names = ["vfs_read", "x64_sys_call"]
    before = text_of(kernel, names)
    consumer, _ = program(
        kernel,
        "fbt::vfs_read:entry, syscall:::entry, profile-997 { @[execname, probefunc] = count(); }",
        ["sleep", "600"],
    )
    assert not consumer.start()
    assert text_of(kernel, names) != before
    guest.link.close_driver()
    assert text_of(kernel, names) == before
    assert not guest.complaints()
    guest.vm.run(["pkill", "-x", "sleep"])
