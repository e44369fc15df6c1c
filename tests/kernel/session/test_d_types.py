# SPDX-License-Identifier: LGPL-2.1-or-later
"""A kernel's types, variables and stacks in D agree with /proc, ftrace and kallsyms of the same boot."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gilk.lang.d.passes.values import DoesNotCompile
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import ran
from tests.kernel.session.test_d_programs import TOLD, TRACING, shell

pytestmark = pytest.mark.xdist_group("lab")
TIMES = 20


@pytest.mark.stress
def test_curthread_is_the_running_task(kernel: KernelTarget, calls: Path) -> None:
    """The task's struct agrees with D's own variables, and with per-CPU variables."""
    text = """
        syscall::getpgid:entry /pid == $target/ {
            this->task = (struct task_struct *)curthread;
            @[stringof(curthread->comm) == execname, this->task->pid == tid, this->task->tgid == pid,
              curthread->real_parent->tgid == ppid, curthread->cred->uid.val == uid,
              `current_task == curthread, `cpu_number == cpu, `runqueues.cpu == cpu,
              `runqueues.curr == curthread, curthread->mm->owner->pid == pid] = count();
        }
        END { printa("%d %d %d %d %d %d %d %d %d %d %@d\\n", @); }"""
    assert ran(kernel, text, [str(calls), str(TIMES)]).lines == [f"1 1 1 1 1 1 1 1 1 1 {TIMES}"]


@pytest.mark.stress
def test_curlwpsinfo_has_the_name_and_the_stop_of_a_thread(kernel: KernelTarget) -> None:
    """It stops itself once, as its own status in /proc says to another, which lets it go on. Process 0 is idle."""
    text = """
        sched:::off-cpu /pid == $target && curlwpsinfo->pr_flag == PR_STOPPED/ {
            @[curlwpsinfo->pr_name, curlwpsinfo->pr_wchan, curlwpsinfo->pr_stype] = count();
        }
        sched:::off-cpu /(pid == 0) != (curlwpsinfo->pr_flag == PR_IDLE)/ { @others = count(); }
        END { printa("%s %d %d %@d\\n", @); printa("others %@d\\n", @others); }"""
    stops = """
        (until grep -q "^State:.T" /proc/$$/status; do :; done; kill -CONT $$) &
        printf stops > /proc/$$/comm; kill -STOP $$; wait"""
    assert ran(kernel, text, ["sh", "-c", stops]).lines == ["stops 0 0 1"]


def test_kernel_variables_agree_with_proc(kernel: KernelTarget, guest: Guest) -> None:
    text = """BEGIN {
        printf("%s|", `linux_banner); printf("%s|", stringof(`init_task.comm)); printf("%d|", `init_task.pid);
        printf("%d|%d|%d|", `pid_max, `max_threads, `nr_cpu_ids);
        printf("%s|", stringof(`init_uts_ns.name.release)); printf("%d|", `init_task.tasks.prev != NULL);
        printf("%p|%p|", `vfs_read, &`init_task); printf("%a|%a|", &`max_pfn, `vfs_read);
        printf("%d|%d|", `crashing_cpu, `cad_pid->numbers[0].nr); exit(0); }"""
    told = "".join(ran(kernel, text).lines).split("|")
    read = [guest.vm.run(["cat", f"/proc/{name}"])[1].decode() for name in ("version", "sys/kernel/pid_max")]
    threads = guest.vm.run(["cat", "/proc/sys/kernel/threads-max"])[1].decode()
    release = guest.vm.run(["uname", "-r"])[1].decode().strip()
    symbols = guest.vm.run(["grep", "-E", " (vfs_read|init_task)$", "/proc/kallsyms"])[1].decode().split()
    address = {name: at for at, name in zip(symbols[::3], symbols[2::3], strict=True)}
    assert told[0].strip() == read[0].strip()
    assert told[1:8] == ["swapper/0", "0", read[1].strip(), threads.strip(), "2", release, "1"]
    assert told[8:10] == [address["vfs_read"].lstrip("0"), address["init_task"].lstrip("0")]
    assert told[10:12] == ["vmlinux`max_pfn", "vmlinux`vfs_read"]
    assert told[12:14] == ["-1", "1"]  # of none that crashes, and init's, as the kernel's own source begins them


def test_arguments_have_the_types_of_the_function(kernel: KernelTarget) -> None:
    """The functions are vfs_read(struct file *, char *, size_t, loff_t *) and do_filp_open(int, struct filename *,
    ...)."""
    text = """
        fbt::vfs_read:entry /pid == $target && args[2] == 777/ {
            @[stringof(args[0]->f_path.dentry->d_name.name), args[0]->f_inode->i_rdev >> 20] = sum(args[2]);
        }
        fbt::vfs_read:return /pid == $target && args[1] == 777/ { @results = count(); }
        fbt::do_filp_open:entry /pid == $target/ { self->name = stringof(args[1]->name); }
        fbt::do_filp_open:return /pid == $target && self->name == "/dev/zero"/ { @opened = count(); }
        END { printa("%s %d %@d\\n", @); printa("%@d\\n", @results); printa("%@d\\n", @opened); }"""
    done = ran(kernel, text, ["dd", "if=/dev/zero", "of=/dev/null", "bs=777", "count=10", "status=none"])
    assert done.lines == ["zero 1 7770", "10", "1"]


def test_system_calls_have_the_types_of_their_arguments(kernel: KernelTarget, calls: Path) -> None:
    """The types are those of a call's format file: int and long, whose upper bits have no meaning or all of it, and
    pointers."""
    text = """
        getpgid:entry /pid == $target/ { @ = sum(args[0]); @size[sizeof (args[0])] = count(); }
        syscall::openat:entry /pid == $target/ { @names[args[0], copyinstr((uintptr_t)args[1])] = count(); }
        syscall::newfstat:entry /pid == $target/ { @members[sizeof (args[1]->st_size)] = count(); }
        syscall::msgsnd:entry /pid == $target/ { @text[args[1]->mtype, args[2]] = count(); }
        END { printa("%@d\\n", @); printa("%d %@d\\n", @size); printa("%d %d %@d\\n", @text); }"""
    total = sum(range(0x1000, 0x1000 + TIMES))
    assert ran(kernel, text, [str(calls), str(TIMES)]).lines == [str(total), f"4 {TIMES}", f"1 100 {TIMES}"]
    with pytest.raises(DoesNotCompile) as caught:
        ran(kernel, "getpgid:entry { trace(args[1]); }")
    assert caught.value.wrong.diagnostic.tag == "D_ARGS_IDX"


def test_a_kernel_stack_is_the_one_that_ftrace_records(kernel: KernelTarget, guest: Guest, calls: Path) -> None:
    """The stack goes from the function to the system call; caller is the second frame, and stackdepth the number of
    frames."""
    name = "load_msg"
    shell(guest, TRACING.format(names=name) + "echo 1 > options/func_stack_trace\n")
    text = f"""
        fbt::{name}:entry /pid == $target/ {{ @[stack()] = count(); @depth[stackdepth, caller] = count(); }}
        fbt::{name}:entry /pid == $target/ {{ @two[stack(2)] = count(); @names[sym(caller), mod(caller)] = count(); }}
        END {{ printa("%k %@d\\n", @); printa("depth %d %a %@d\\n", @depth); printa("two %k %@d\\n", @two);
               printa("names %a %a %@d\\n", @names); }}"""
    done = ran(kernel, text, [str(calls), str(TIMES)], clausetime="100000")
    trace = shell(guest, "cd /sys/kernel/tracing; echo 0 > options/func_stack_trace\n" + TOLD)
    theirs = re.findall(r"=> (\S+)", trace.partition("<stack trace>")[2].partition("calls-")[0])
    frames = [line.strip() for line in done.lines if "`" in line and not line.startswith(("depth", "names"))]
    ours = [re.sub(r"\+0x.*", "", frame.partition("`")[2]) for frame in frames]
    length = len(ours) - 2  # the frames of stack(2) come last
    assert ours[:length] == theirs[-length:] and theirs[-1].startswith("entry_SYSCALL") and ours[0] == name
    assert ours[length:] == ours[:2]
    (depth,) = [line.split() for line in done.lines if line.startswith("depth")]
    assert depth[1] == str(length) and depth[2].startswith(f"vmlinux`{ours[1]}+0x") and depth[3] == str(TIMES)


@pytest.mark.stress
def test_a_profile_sample_has_the_stack_of_the_interrupted_code(kernel: KernelTarget) -> None:
    """A task that only reads /dev/zero is in read(), so its stacks lead there. In user mode there is no kernel
    stack."""
    text = """
        syscall::read:entry /pid == $target && arg2 == 1000000/ { reading = 1; }
        profile-997 /pid == $target && arg0 && reading/ { @[stack()] = count(); n++; }
        profile-997 /pid == $target && arg1/ { @user[stackdepth, caller] = count(); }
        profile-997 /n > 40/ { exit(0); }
        END { printa("%k %@d\\n", @); printa("user %d %d %@d\\n", @user); }"""
    done = ran(kernel, text, ["dd", "if=/dev/zero", "of=/dev/null", "bs=1000000"], clausetime="100000")
    ends = [line for line in done.lines if "entry_SYSCALL_64_after_hwframe" in line]
    assert ends and "vmlinux`ksys_read" in "".join(done.lines)
    assert all(line.startswith("user 0 0 ") for line in done.lines if line.startswith("user"))


def test_no_address_that_a_program_computes_does_harm(kernel: KernelTarget, guest: Guest) -> None:
    """The addresses are the ends of all address ranges, holes, and all device registers: each access is a fault, or
    reads memory."""
    devices = re.findall(r"^0x(\w+)-0x\w+ .*ioremap", shell(guest, "cat /proc/vmallocinfo"), re.MULTILINE)
    assert devices
    ends = [0, 0x1000, 1 << 47, 0xFFFF << 48, 0xFFFF8 << 44, 0xFFFFFF << 40, 0xFFFFFFFF << 32, 0xFFFFFFFF80000000]
    ends += [0xFFFFFFFFA0000000, 0xFFFFFFFFC0000000, 0xFFFFFFFFFF000000, 0xFFFFFFFFFF600000, 0xFFFFFFFFFF5FD000]
    ends += [0xFFFFC90000000000, 0xFFFFE90000000000, 0xFFFFEA0000000000, 0xFFFFFE0000000000, 0xFFFFFF8000000000]
    ends += [0xFFFFFFEF00000000, 0xFFFFFFFEFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0xDEAD000000000100]
    around = [end + by & (1 << 64) - 1 for end in ends for by in (-4096, -8, -7, -1, 0, 1, 4096)]
    clauses = [f"BEGIN {{ trace(*(long *)0x{at:x}); }}" for at in sorted({*around, *(int(one, 16) for one in devices)})]
    bad = [f'BEGIN {{ printf("device %x\\n", *(int *)0x{one}); }}' for one in devices]
    done = ran(kernel, "\n".join([*clauses, *bad, "BEGIN { exit(0); }"]), bufsize="8m", clausetime="1000000")
    assert not any(line.startswith("device") for line in done.lines)
    assert done.errors.count("invalid address") >= len(bad) + len(clauses) // 2
    assert not guest.complaints()


@pytest.mark.parametrize(
    ("action", "what"),
    [
        ("trace(`no_such_symbol)", "failed to resolve"),
        ("trace(`saved_boot_params)", "failed to resolve"),
        ("trace(curthread->no_such_member)", "no_such_member"),
        ("trace(((struct no_such_struct *)arg0)->x)", "no_such_struct"),
    ],
)
def test_names_that_the_kernel_lacks_do_not_compile(kernel: KernelTarget, action: str, what: str) -> None:
    with pytest.raises(DoesNotCompile) as caught:
        ran(kernel, f"BEGIN {{ {action}; }}")
    assert what in str(caught.value)


def test_a_struct_as_a_whole_is_printed_and_kept(kernel: KernelTarget) -> None:
    done = ran(kernel, "BEGIN { print(&`init_task.se.load); exit(0); }")
    assert "weight" in "".join(done.lines) and "load_weight" in "".join(done.lines)
    kept = ran(
        kernel, 'BEGIN { x = `init_task.se.load; printf("%d %d", x.weight, `init_task.se.load.weight); exit(0); }'
    )
    one, other = "".join(kept.lines).split()
    assert one == other != "0"
