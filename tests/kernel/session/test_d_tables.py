# SPDX-License-Identifier: LGPL-2.1-or-later
"""rawtp, sched, proc and io in a live stock kernel, beside ftrace's events of the same work."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gilk.engines.dtrace.enabling import NoSuchProbe
from gilk.engines.dtrace.kernel_clauses import printed
from gilk.errors import TargetError
from gilk.targets.kernel.d_messages import POINT, POINT_BODY, POINT_NAME, DriverProgram
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.target import KernelTarget
from gilk.trace.d.layout import LAYOUT_FIELDS
from gilk.trace.d.memory import MemoryOptions
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import program, ran
from tests.kernel.session.test_d_programs import TOLD, TRACING, shell

pytestmark = pytest.mark.xdist_group("lab")
BEGIN = """\
mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing
cd /sys/kernel/tracing
echo > trace; echo 4096 > buffer_size_kb
for event in {events}; do echo 1 > events/$event/enable; done
"""
END = """\
cd /sys/kernel/tracing
echo 0 > events/enable
cat trace
"""
SHELL = ["sh", "-c", "for n in 1 2 3 4 5; do cat /proc/version | wc -c; done; /no/such/program; kill -0 $$; true"]
FIELDS = re.compile(r"(\w+)=(\S+)")


def traced(said: str, event: str) -> list[dict[str, str]]:
    """The fields of each event, in order; ``task`` is the number of the task that ran."""
    lines = re.findall(rf"^ *\S.*?-(\d+) +\[.*: {event}: (.*)$", said, re.MULTILINE)
    return [{"task": task, **dict(FIELDS.findall(rest))} for task, rest in lines]


def is_within(ours: Sequence[object], theirs: Sequence[object], least: int) -> bool:
    """Whether `ours` is a contiguous part of `theirs`, which may have more before the program began and after it
    ended."""
    starts = range(len(theirs) - len(ours) + 1)
    return len(ours) >= least and any(theirs[at : at + len(ours)] == ours for at in starts)


def test_processes_are_those_that_ftrace_sees(kernel: KernelTarget, guest: Guest) -> None:
    names = ("sched_process_fork", "sched_process_exec", "sched_process_exit", "signal_generate")
    events = [f"{'signal' if name.startswith('signal') else 'sched'}/{name}" for name in names]
    shell(guest, BEGIN.format(events=" ".join(events)))
    text = """
        proc:::create /pid == $target/ { printf("create %d\\n", args[0]->pr_pid); }
        proc:::start /ppid == $target && curpsinfo->pr_fname == "sh"/ { printf("start %d\\n", pid); }
        proc:::exec /ppid == $target/ { printf("exec %s\\n", args[0]); }
        proc:::exec-success /ppid == $target/ { printf("executes %d %s\\n", pid, execname); }
        proc:::exec-failure /ppid == $target/ { printf("fails %d\\n", args[0]); }
        proc:::exit /ppid == $target || pid == $target/ { printf("exit %d %d\\n", pid, args[0]); }
        proc:::signal-send /args[1]->pr_pid == $target/ { printf("signal %d\\n", args[2]); }
        proc:::signal-discard /args[1]->pr_pid == $target/ { printf("discard %d\\n", args[2]); }
        BEGIN { printf("target %d\\n", $target); }"""
    done = ran(kernel, text, SHELL)
    said = shell(guest, END)
    told: dict[str, list[str]] = {}
    for line in done.lines:
        told.setdefault(line.split()[0], []).append(line.split(maxsplit=1)[1])
    (target,) = told["target"]
    forks, executed, exits, signals = (traced(said, name) for name in names)
    children = [one["child_pid"] for one in forks if one["task"] == target]
    assert told["create"] == children and len(children) >= 11
    assert sorted(told["start"]) == sorted(children)
    mine = [one for one in executed if one["pid"] in children]
    assert sorted(told["executes"]) == sorted(f"{one['pid']} {one['filename'].rpartition('/')[2]}" for one in mine)
    assert {one["filename"] for one in mine} < {*told["exec"]} and "/no/such/program" in told["exec"]
    assert told["fails"] == ["2"]
    ended = [one["task"] for one in exits if one["task"] in (target, *children)]
    assert sorted(told["exit"]) == sorted(f"{pid} 1" for pid in ended)
    of_target = [one for one in signals if one["pid"] == target]
    for name, result, least in (("signal", "0", 5), ("discard", "1", 1)):
        assert is_within(told[name], [one["sig"] for one in of_target if one["res"] == result], least)


def test_switches_and_wakeups_are_those_that_ftrace_sees(kernel: KernelTarget, guest: Guest) -> None:
    shell(guest, BEGIN.format(events="sched/sched_switch sched/sched_waking"))
    text = """
        sched:::off-cpu /tid == $target/ { printf("off %d\\n", args[0]->pr_lwpid); }
        sched:::sleep /tid == $target/ { sleeps++; }
        rawtp:sched::sched_switch /tid == $target && args[3] != 0 && !args[0]/ { switches++; }
        sched:::wakeup /args[0]->pr_lwpid == $target/ { printf("waker %d\\n", tid); }
        sched:::on-cpu /tid == $target/ { on++; }
        sched:::enqueue /args[0]->pr_lwpid == $target/ { @[args[2]->cpu_id >= 0 && args[2]->cpu_id < 2] = count(); }
        BEGIN { printf("target %d\\n", $target); }
        END { printf("%d %d %d\\n", sleeps, switches, on); printa("%d\\n", @); }"""
    done = ran(kernel, text, SHELL)
    said = shell(guest, END)
    (target,) = [line.split()[1] for line in done.lines if line.startswith("target")]
    switched, woken = traced(said, "sched_switch"), traced(said, "sched_waking")
    nexts = [one["next_pid"] for one in switched if one["prev_pid"] == target]
    off = [line.split()[1] for line in done.lines if line.startswith("off")]
    assert is_within(off, nexts, 6)
    wakers = [one["task"] for one in woken if one["pid"] == target]
    assert is_within([line.split()[1] for line in done.lines if line.startswith("waker")], wakers, 5)
    sleeps, switches, on = map(int, done.lines[-2].split())
    states = [one["prev_state"] for one in switched if one["prev_pid"] == target][-len(off) :]
    assert sleeps == switches == sum(not state.startswith("R") for state in states)
    assert abs(on - len(off)) <= 1  # the program begins and ends with one of them
    assert done.lines[-1] == "1"


@pytest.fixture
def disk(guest: Guest, exchange: Path) -> Iterator[str]:
    """A file system in memory, on a block device that nothing else uses."""
    shell(guest, "modprobe ext4 && modprobe brd rd_nr=1 rd_size=16384 && mkfs.ext4 -q /dev/ram0")
    shell(guest, "mkdir -p /tmp/disk && mount /dev/ram0 /tmp/disk && sync")
    yield "/tmp/disk"
    shell(guest, "umount /tmp/disk 2>/dev/null; rmmod brd")


def test_block_requests_are_those_that_ftrace_sees(guest: Guest, disk: str) -> None:
    """The device, the place, the size and the file of each request agree."""
    kernel = KernelTarget(guest.link)
    shell(guest, BEGIN.format(events="block/block_bio_queue"))
    text = """
        io:::start /args[1]->dev_name == "ram0"/ {
            printf("io %d,%d %s %d + %d %s %s\\n", args[1]->dev_major, args[1]->dev_minor,
                args[0]->b_flags & B_READ ? "R" : "W", args[0]->b_blkno, args[0]->b_bcount / 512, args[1]->dev_statname,
                args[2]->fi_name);
        }
        io:::start, io:::done /args[1]->dev_name == "ram0"/ {
            @ends[probename, args[0]->b_addr, args[0]->b_blkno, args[0]->b_bcount, args[0]->b_flags & B_READ] = count();
        }
        io:::start /args[1]->dev_name == "ram0"/ {
            @paths[args[2]->fi_name, args[2]->fi_pathname, args[2]->fi_dirname, args[2]->fi_fs] = count();
        }
        rawtp:ext4::ext4_sync_file_enter { @synced = count(); }
        END { printa("end %s %x %d %d %d %@d\\n", @ends); printa("path %s %s %s %s\\n", @paths); }
        END { printa("synced %@d\\n", @synced); }"""
    work = f"""mkdir {disk}/below; echo words > {disk}/named; echo more > {disk}/below/other
        sync {disk}/named {disk}/below/other; echo 3 > /proc/sys/vm/drop_caches; cat {disk}/named"""
    done = ran(kernel, text, ["sh", "-c", work], clausetime="200000")
    ours = [line.split() for line in done.lines if line.startswith("io")]
    theirs = re.findall(r"block_bio_queue: (\d+,\d+) (\S+) (\d+) \+ (\d+) ", shell(guest, END))
    theirs = [one for one in theirs if one[0] == ours[0][1] and one[3] != "0"]
    wanted = [(device, "R" if "R" in kind else "W", at, size) for device, kind, at, size in theirs]
    assert is_within([(one[1], one[2], one[3], one[5]) for one in ours if one[5] != "0"], wanted, 4)
    assert {one[6] for one in ours} == {"ram0"}
    assert [one[7] for one in ours if one[2] == "W"].count("named") == 1 and "named" in [
        one[7] for one in ours if one[2] == "R"
    ]
    assert done.lines[-1] == "synced 2"
    ends = [line.split()[1:] for line in done.lines if line.startswith("end")]
    started, ended = (sorted(row[1:] for row in ends if row[0] == name) for name in ("start", "done"))
    assert started == ended and len(started) >= 4
    paths = [line.split()[1:] for line in done.lines if line.startswith("path")]
    assert ["named", "/named", "/", "ext4"] in paths and ["other", "/below/other", "/below", "ext4"] in paths


QUEUE = "nullb0"


@pytest.fixture
def queue(guest: Guest) -> Iterator[str]:
    """A file system on a block device with a queue, in which bios become requests; nothing else uses it."""
    at_once = "-E lazy_itable_init=0,lazy_journal_init=0"  # nothing is written or read later
    shell(guest, f"modprobe ext4 && modprobe null_blk memory_backed=1 gb=1 && mkfs.ext4 -q {at_once} /dev/nullb0")
    options = "no_prefetch_block_bitmaps,noinit_itable"
    shell(guest, f"mkdir -p /tmp/queue && mount -o {options} /dev/nullb0 /tmp/queue && sync")
    yield "/tmp/queue"
    shell(guest, "umount /tmp/queue; rmmod null_blk")


def counters(guest: Guest) -> list[int]:
    """The device's counts of reads, merged reads and read sectors, then the same of writes
    (Documentation/block/stat.rst)."""
    found = [int(word) for word in shell(guest, f"cat /sys/block/{QUEUE}/stat").split()]
    return [*found[:3], *found[4:7]]


@pytest.mark.stress
def test_ends_of_block_requests_are_those_that_the_device_counts(guest: Guest, queue: str) -> None:
    """Each bio ends once, also if several become one request; it is one that was started, or a part that was split
    off."""
    kernel = KernelTarget(guest.link)
    text = """
        io:::start /args[1]->dev_name == "nullb0"/ { started[args[0]->b_addr] = 1; }
        io:::done /args[1]->dev_name == "nullb0"/ {
            @unmatched = sum(!started[args[0]->b_addr]); started[args[0]->b_addr] = 0;
            @failed = sum(args[0]->b_error != 0);
        }
        io:::done /args[1]->dev_name == "nullb0" && args[0]->b_bcount/ {
            @bios[args[0]->b_flags & B_READ ? "R" : "W"] = count();
            @bytes[args[0]->b_flags & B_READ ? "R" : "W"] = sum(args[0]->b_bcount);
            @names[args[2]->fi_name] = sum(args[0]->b_bcount);
        }
        END {
            printa("bad %@d %@d\\n", @unmatched, @failed);
            printa("%s %@d %@d\\n", @bios, @bytes); printa("name %s %@d\\n", @names);
        }"""
    # Two processors end requests at once: an aggregation counts all of them, a global variable does not.
    work = f"""dd if=/dev/zero of={queue}/large bs=64k count=40; sync; echo 3 > /proc/sys/vm/drop_caches
        cat {queue}/large > /dev/null; dd if=/dev/zero of={queue}/direct bs=4k count=50 oflag=direct; sync"""
    shell(guest, BEGIN.format(events="block/block_rq_complete block/block_split"))
    before = counters(guest)
    done = ran(kernel, text, ["sh", "-c", work])
    seen = [after - first for after, first in zip(counters(guest), before, strict=True)]
    said = shell(guest, END)
    theirs = re.findall(r"block_rq_complete: \d+,\d+ (\S+) \(\) \d+ \+ (\d+) ", said)
    told = {line.split()[0]: line.split()[1:] for line in done.lines if not line.startswith("name")}
    assert told["bad"] == [str(said.count(": block_split: ")), "0"] and not done.errors
    for kind, (requests, merged, sectors) in (("R", seen[:3]), ("W", seen[3:])):
        bios, size = map(int, told[kind])
        assert size == 512 * sectors == 512 * sum(int(each) for rwbs, each in theirs if ("R" in rwbs) == (kind == "R"))
        assert bios == requests + merged
    sizes = {line.split()[1]: int(line.split()[2]) for line in done.lines if line.startswith("name")}
    assert sizes["large"] == 2 * 40 * 65536 and not guest.complaints()


@pytest.mark.stress
def test_wait_done_follows_each_wait_start(guest: Guest, disk: str) -> None:
    """wait-done follows each wait-start at once; both come as often as ftrace sees the function that waits."""
    kernel = KernelTarget(guest.link)
    text = """
        io:::wait-start, io:::wait-done /execname == "sync" && args[1]->dev_name == "ram0"/ {
            @[probename, tid, args[0]->b_addr] = count(); }
        io:::wait-start /execname == "sync"/ { self->open = args[0]->b_addr; }
        io:::wait-done /execname == "sync"/ { @wrong = sum(self->open != args[0]->b_addr); self->open = 0; }
        END { printa("%s %d %x %@d\\n", @); printa("wrong %@d\\n", @wrong); }"""
    shell(guest, TRACING.format(names="submit_bio_wait"))
    work = f"for n in 1 2 3 4 5; do echo $n > {disk}/waited; sync /dev/ram0; done"  # the disk's cache is flushed
    done = ran(kernel, text, ["sh", "-c", work])
    waited = len(re.findall(r"^ *sync-\d+ .*: submit_bio_wait <-", shell(guest, TOLD), re.MULTILINE))
    rows = [line.split() for line in done.lines]
    begun, over = (sorted(row[1:] for row in rows if row[0] == name) for name in ("wait-start", "wait-done"))
    assert begun == over and sum(int(row[-1]) for row in begun) == waited >= 5
    assert done.lines[-1] == "wrong 0" and not done.errors and done.restored and not guest.complaints()


def test_a_module_cannot_be_unloaded_while_a_program_uses_its_tracepoints(guest: Guest, disk: str) -> None:
    kernel = KernelTarget(guest.link)
    consumer, _ = program(kernel, "rawtp:::ext4_sync_file_enter { n++; }")
    assert not consumer.start()
    shell(guest, f"umount {disk}")
    assert guest.vm.run(["rmmod", "ext4"])[0] != 0
    guest.link.close_driver()
    assert guest.vm.run(["rmmod", "ext4"])[0] == 0
    assert not guest.complaints()


def test_malformed_tracepoints_are_refused(kernel: KernelTarget, guest: Guest) -> None:
    """The wrong points have no program, no group, an unterminated name, or a name that no tracepoint has; many of
    them do no harm."""
    consumer, _ = program(kernel, "BEGIN { n++; }")
    made, enabled = consumer.compiled.program, consumer.enabled
    layout = MemoryOptions(2, scratches=0, aggregations=1, globals_size=520).layout()
    driver = Driver(guest.link)
    good = (0, 1, 0, 0, b"sched_switch")
    with pytest.raises(TargetError):
        driver.ask(POINT, POINT_BODY.pack(*good))
    code = printed(made, enabled, enabled.groups(), consumer.options)
    DriverProgram(driver).load(code, [int(getattr(layout, name)) for name in LAYOUT_FIELDS], 50_000)
    flags = [(0, 1, 2, 0, b"sched_switch"), (0, 1, 4, 0, b"sched_switch")]
    bad = [(1, 1, 0, 0, b"sched_switch"), *flags, (0, 1, 0, 1, b"sched_switch")]
    for row in [*bad, (0, 1, 0, 0, b"sched_switch_"), (0, 1, 0, 0, b""), (0, 1, 0, 0, b"x" * POINT_NAME)]:
        with pytest.raises(TargetError):
            driver.ask(POINT, POINT_BODY.pack(*row))
    for _ in range(20):
        driver.ask(POINT, POINT_BODY.pack(*good))
    guest.link.close_driver()
    assert not guest.complaints()


@pytest.mark.parametrize(
    ("probe", "why"),
    [
        ("sched:::remain-cpu", "two places"),
        ("sched:::cpucaps-sleep", "no cpucaps"),
        ("rawtp:::no_such_tracepoint", "does not match"),
        ("lockstat:::rw-upgrade", "no one place"),
        ("lockstat:::thread-spin", "no locks of threads"),
    ],
)
def test_unavailable_probes_are_refused_with_the_reason(kernel: KernelTarget, probe: str, why: str) -> None:
    with pytest.raises(NoSuchProbe, match=why):
        program(kernel, f"{probe} {{ }}")


def test_waits_for_buffers_of_xfs_are_those_that_ftrace_sees(guest: Guest) -> None:
    """Their places and sizes agree. The file system waits for bios, too, some of which write, and which are moved on
    when they are done."""
    kernel = KernelTarget(guest.link)
    shell(guest, "modprobe xfs && modprobe null_blk memory_backed=1 gb=1 && mkfs.xfs -q /dev/nullb0 && mkdir -p /tmp/x")
    shell(guest, BEGIN.format(events="xfs/xfs_buf_iowait xfs/xfs_buf_iowait_done"))
    text = """
        io:::wait-start, io:::wait-done /args[1]->dev_statname == "nullb0"/ {
            printf("%s %s %x %x %d\\n", probename, args[0]->b_flags & B_WRITE ? "W" : "R", args[0]->b_blkno,
                args[0]->b_bcount / 512, args[0]->b_edev >> 20 == args[1]->dev_major);
            @read_or_write = min(!(args[0]->b_flags & B_WRITE) != !(args[0]->b_flags & B_READ));
        }"""
    try:
        done = ran(kernel, text, ["sh", "-c", "mount /dev/nullb0 /tmp/x && echo words > /tmp/x/y && umount /tmp/x"])
        said = shell(guest, END)
    finally:
        shell(guest, "rmmod null_blk")
    theirs = Counter(re.findall(r" xfs_buf_iowait: dev \S+ daddr 0x(\S+) bbcount 0x(\S+) ", said))
    *lines, exclusive = done.lines
    rows = [line.split() for line in lines]
    starts, ends = (Counter((row[2], row[3]) for row in rows if row[0] == name) for name in ("wait-start", "wait-done"))
    assert starts.total() == ends.total() and all(row[4] == "1" for row in rows) and exclusive.strip() == "1"
    assert {row[1] for row in rows} == {"R", "W"}
    assert theirs and not theirs - starts and not theirs - ends
