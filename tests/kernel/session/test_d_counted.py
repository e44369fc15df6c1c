# SPDX-License-Identifier: LGPL-2.1-or-later
"""sysinfo, vminfo, and the probes of changed priorities and received signals, beside the kernel's own counts of the
same work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import ran
from tests.kernel.session.test_d_programs import shell

pytestmark = pytest.mark.xdist_group("lab")
PYTHON = ("/usr/bin/python3", "-c")


def test_calls_and_bytes_are_those_that_dd_makes(kernel: KernelTarget, guest: Guest) -> None:
    """The counts of two runs of dd differ by the hundred blocks that one of them copies more."""
    text = """
        sysinfo:::sysread /pid == $target/ { @a = sum(arg0); }
        sysinfo:::syswrite /pid == $target/ { @b = sum(arg0); }
        sysinfo:::readch /pid == $target/ { @c = sum(arg0); }
        sysinfo:::writech /pid == $target/ { @d = sum(arg0); }
        END { printa("%@d\\n", @a); printa("%@d\\n", @b); printa("%@d\\n", @c); printa("%@d\\n", @d); }"""

    def counted(times: int) -> list[int]:
        command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=777", f"count={times}", "status=none"]
        done = ran(kernel, text, command)
        assert not done.errors
        return [*map(int, done.lines), *[0] * (4 - len(done.lines))]

    with_some, with_one = counted(101), counted(1)
    assert [a - b for a, b in zip(with_some, with_one, strict=True)] == [100, 100, 77700, 77700]


def test_processes_and_switches_are_those_of_proc_stat(kernel: KernelTarget, guest: Guest) -> None:
    """The shell's switches are those that its task has counted itself, between two of its system calls."""
    text = """
        self int looks, done; self unsigned long before;
        sysinfo:::pswitch { @everywhere = sum(arg0); }
        sysinfo:::pswitch /self->looks/ { @switches = sum(arg0); }
        rawtp:sched::sched_switch /self->looks/ { @all = count(); }
        syscall::kill:entry /pid == $target && self->looks/ {
            @own = sum(curthread->nvcsw + curthread->nivcsw - self->before); self->looks = 0; self->done = 1; }
        syscall::kill:entry /pid == $target && !self->done/ {
            self->before = curthread->nvcsw + curthread->nivcsw; self->looks = 1; }
        sysinfo:::sysfork, sysinfo:::sysvfork /ppid == $target || pid == $target/ { @forks = sum(arg0); }
        sysinfo:::sysexec /ppid == $target/ { @execs = sum(arg0); }
        proc:::create /pid == $target/ { @created = count(); }
        proc:::exec-success, proc:::exec-failure /ppid == $target/ { @tried = count(); }
        END {
            printa("%@d\\n", @everywhere); printa("%@d\\n", @switches); printa("%@d\\n", @all);
            printa("%@d\\n", @own); printa("%@d\\n", @forks); printa("%@d\\n", @created); printa("%@d\\n", @execs);
            printa("%@d\\n", @tried);
        }"""
    before = ctxt(guest)
    work = "kill -0 $$; for n in 1 2 3 4 5; do cat /proc/version | wc -c; done; kill -0 $$; true"
    done = ran(kernel, text, ["sh", "-c", work])
    after = ctxt(guest)
    everywhere, switches, all_, own, forks, created, execs, tried = map(int, done.lines)
    assert 5 <= switches == all_ == own <= everywhere <= after - before
    assert forks == created >= 10 and execs == tried == 10
    assert not done.errors


def ctxt(guest: Guest) -> int:
    return int(shell(guest, "sed -n 's/^ctxt //p' /proc/stat"))


def test_faults_are_those_that_rusage_counts(kernel: KernelTarget, guest: Guest) -> None:
    """Memory is touched, and written to after a fork: each page is a fault of its own each time."""
    script = (
        "import mmap, os\n"
        "m = mmap.mmap(-1, 200 * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
        "m.madvise(15)\n"  # MADV_NOHUGEPAGE
        "for n in range(200): m[n * 4096] = 1\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os.kill(os.getpid(), 0)\n"
        "    for n in range(200): m[n * 4096] = 2\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
    )
    text = """
        syscall::kill:entry /ppid == $target/ { self->looks = 1; }
        syscall::exit_group:entry { self->looks = 0; }
        vminfo:::as_fault /self->looks/ { @faults = sum(arg0); }
        vminfo:::cow_fault /self->looks/ { @copied = sum(arg0); }
        syscall::kill:entry /ppid == $target/ { self->before = curthread->min_flt; }
        syscall::exit_group:entry /ppid == $target/ { printf("%d\\n", curthread->min_flt - self->before); }
        END { printa("%@d\\n", @faults); printa("%@d\\n", @copied); }"""
    done = ran(kernel, text, [*PYTHON, script])
    counted, faults, copied = map(int, done.lines[-3:])
    assert faults == counted >= 200
    assert 200 <= copied <= counted
    assert not done.errors


#: Two threads on two processors; one makes memory unreadable, which the other processor must know at once: unless it
#: is idle, as when its thread has not begun to compute. So this goes on until enough interrupts have arrived.
SHOOTS = """
import hashlib, mmap, os, threading
os.sched_setaffinity(0, {0})
there = threading.Event()
def other():
    os.sched_setaffinity(threading.get_native_id(), {1})
    there.set()
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 1 << 30)  # computes, and holds no lock of Python's
def looked():
    rows = (line.split() for line in open("/proc/interrupts"))
    return next(sum(int(each) for each in row if each.isdigit()) for row in rows if row[0] == "CAL:")
threading.Thread(target=other, daemon=True).start()
there.wait()
memory = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
counted = [looked()]
os.kill(os.getpid(), 0)
counted += [looked()]
while looked() - counted[1] < 100:
    for _ in range(10):
        memory[0] = 1
        memory.madvise(mmap.MADV_DONTNEED)
counted += [looked()]
os.kill(os.getpid(), 0)
counted += [looked()]
with open(%r, "w") as out:
    print(*counted, file=out)
os._exit(0)
"""
ON_THE_WAY = 2  # interrupts that were sent before the program looks, and arrive after it


def test_calls_of_other_processors_are_those_that_proc_interrupts_counts(kernel: KernelTarget, exchange: Path) -> None:
    """The kernel counts such interrupts where they arrive. The program looks before and after the clauses begin to
    count, and before and after they end."""
    text = """
        int on;
        syscall::kill:entry /pid == $target/ { on = !on; }
        sysinfo:::xcalls /on/ { @all = sum(arg0); }
        sysinfo:::xcalls /on && pid == $target/ { @own = sum(arg0); }
        END { printa("%@d\\n", @all); printa("%@d\\n", @own); }"""
    seen = exchange / "interrupts"
    done = ran(kernel, text, [*PYTHON, SHOOTS % str(seen)])
    before, begun, ending, after = map(int, seen.read_text().split())
    everywhere, own = map(int, done.lines)
    assert ending - begun - ON_THE_WAY <= everywhere <= after - before + ON_THE_WAY
    assert 10 <= own <= everywhere
    assert not done.errors


@pytest.fixture
def disk(guest: Guest) -> Iterator[str]:
    shell(guest, "modprobe ext4 && modprobe brd rd_nr=1 rd_size=16384")
    shell(guest, "mkfs.ext4 -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 /dev/ram0")
    shell(guest, "mkdir -p /tmp/disk && mount -o noatime /dev/ram0 /tmp/disk && sync")
    yield "/tmp/disk"
    shell(guest, "umount /tmp/disk 2>/dev/null; rmmod brd")


@pytest.mark.stress
def test_pages_are_those_that_vmstat_counts(guest: Guest, disk: str) -> None:
    """/proc/vmstat is read before and after, and counts in KiB; a request of a fraction of a page counts as one page
    more."""
    kernel = KernelTarget(guest.link)
    text = """
        syscall::kill:entry /pid == $target/ { looks++; }
        vminfo:::pgpgin /looks == 1/ { @["in"] = sum(arg0); }
        vminfo:::pgin /looks == 1/ { @requests = sum(arg0); }
        vminfo:::pgpgout /looks == 1/ { @["out"] = sum(arg0); }
        vminfo:::pgout /looks == 1/ { @requests = sum(arg0); }
        END { printa("%s %@d\\n", @); printa("requests %@d\\n", @requests); }"""
    look = f"grep '^pgpg' /proc/vmstat >> {disk}.looks; kill -0 $$;"
    work = f"dd if=/dev/zero of={disk}/f bs=4096 count=64 conv=fsync 2>/dev/null; sync;"
    work += " echo 3 > /proc/sys/vm/drop_caches;"
    after = f"kill -0 $$; grep '^pgpg' /proc/vmstat >> {disk}.looks"
    shell(guest, f"sync; rm -f {disk}.looks")
    done = ran(kernel, text, ["sh", "-c", f"{look} {work} cat {disk}/f > /dev/null; sync; {after}"])
    looks = [int(line.split()[1]) for line in shell(guest, f"cat {disk}.looks").splitlines()]
    theirs = {"in": looks[2] - looks[0], "out": looks[3] - looks[1]}
    ours = {line.split()[0]: int(line.split()[1]) for line in done.lines}
    for way in ("in", "out"):
        assert theirs[way] >= 256
        assert theirs[way] <= 4 * ours[way] <= theirs[way] + 3 * ours["requests"]
    assert not done.errors


@pytest.mark.stress
def test_changed_priorities_and_handled_signals_are_counted(kernel: KernelTarget) -> None:
    script = (
        "import os, signal\n"
        "os.nice(3)\n"
        "os.nice(0)\n"
        "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(7))\n"
        "os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGHUP})\n"
        "os.kill(os.getpid(), signal.SIGHUP)\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\n"
        "signal.sigwait({signal.SIGUSR1})\n"
        "signal.sigtimedwait({signal.SIGHUP}, 5)\n"
        "assert signal.sigtimedwait({signal.SIGHUP}, 0) is None\n"
    )
    text = """
        sched:::change-pri /args[1]->pr_pid == $target && pid == $target/
        {
            printf("%d -> %d\\n", args[0]->pr_pri, args[2]);
        }
        proc:::signal-clear /pid == $target/ { printf("cleared %d\\n", args[0]); }"""
    done = ran(kernel, text, [*PYTHON, script])
    assert done.lines == ["120 -> 123", "123 -> 92", "92 -> 123", "cleared 10", "cleared 1"]
    assert not done.errors


@pytest.mark.stress
def test_path_lookups_and_module_loads_are_counted(guest: Guest) -> None:
    kernel = KernelTarget(guest.link)
    text = """
        sysinfo:::namei /pid == $target/ { @names = sum(arg0); }
        sysinfo:::modload /ppid == $target/ { @loaded = sum(arg0); }
        sysinfo:::modunload /ppid == $target/ { @unloaded = sum(arg0); }
        END { printa("%@d\\n", @loaded); printa("%@d\\n", @unloaded); printa("%@d\\n", @names); }"""
    done = ran(kernel, text, ["sh", "-c", "modprobe brd rd_nr=1 && rmmod brd; exec stat /no/such /etc /etc/passwd"])
    loaded, unloaded, names = map(int, done.lines)
    assert (loaded, unloaded) == (1, 1) and names >= 3
