# SPDX-License-Identifier: LGPL-2.1-or-later
"""Probes in a live stock kernel: counts are those of the calls made and of ftrace, values are those passed."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import gilk
from gilk.errors import UsageError
from gilk.session.kernel_session import KernelSession
from gilk.splice.plan import Refusal
from gilk.targets.kernel.target import KernelTarget
from gilk.trace.probes import RecordKind
from tests.kernel.driver.driving import NUMBERS, Guest
from tests.seldom import seldom

TIMES = 300
ALIGNED = 50_000_000  # ns by which the clocks of two machines may differ: a busy machine reads them slowly
#: Functions of System V messages, which only the tests' program sends.
MESSAGES = (
    *("do_msgsnd", "do_msgrcv.constprop.0", "load_msg", "store_msg", "free_msg", "ksys_msgsnd", "newque", "freeque"),
)
TRACED = """\
mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing
cd /sys/kernel/tracing
for name in {names}; do echo $name; done > set_ftrace_filter
echo function > current_tracer
{command}
cat trace
echo nop > current_tracer
echo > set_ftrace_filter
"""


def run(guest: Guest, calls: Path, times: int = TIMES) -> None:
    status, _, said = guest.vm.run([str(calls), str(times)])
    assert status == 0, said


def present(kernel: KernelTarget, names: tuple[str, ...]) -> list[str]:
    known = {name for span in kernel.kernel.image.spans for name in (span.name, *span.aliases)}
    return [name for name in names if name in known]


def text_of(kernel: KernelTarget, names: list[str]) -> list[bytes]:
    spans = [span for span in kernel.kernel.image.spans if span.name in names]
    return kernel.link.read_core([(span.start, span.end - span.start) for span in spans])


def test_two_sessions_in_turn_use_one_link(kernel: KernelTarget, guest: Guest, calls: Path) -> None:
    """Both sessions use one link: the first does not hinder the second, and stays ended."""
    with KernelSession(kernel, points=1 << 10) as first:
        first.insert("kernel:__x64_sys_getpgid:entry", "stamp")
        run(guest, calls, 20)
    with KernelSession(kernel, points=1 << 10) as second:
        second.insert("kernel:__x64_sys_getpgid:entry", "stamp")
        first.close()
        run(guest, calls, 30)
        assert second.close().num_rows == 30
    assert first.records == 20
    assert first.restored and second.restored


def test_counts_are_those_of_the_calls_made(session: KernelSession, guest: Guest, calls: Path) -> None:
    (probe,) = session.insert("kernel:__x64_sys_getpgid:entry", "count")
    assert probe.tactic is not None
    run(guest, calls)
    assert session.counts() == {probe.row.point: TIMES}
    session.remove([probe])
    run(guest, calls)
    session.close()
    assert session.counts() == {probe.row.point: TIMES}
    assert session.restored is True


def test_entries_are_those_that_ftrace_counts(
    session: KernelSession, kernel: KernelTarget, guest: Guest, calls: Path
) -> None:
    names = present(kernel, MESSAGES)
    assert len(names) > 4
    probes = [probe for name in names for probe in session.insert(f"kernel:{name}:entry", "count")]
    assert not [probe for probe in probes if probe.tactic is None]
    status, out, said = guest.vm.run(["sh", "-ec", TRACED.format(names=" ".join(names), command=f"{calls} {TIMES}")])
    assert status == 0, said
    oracle = Counter(match[1] for match in re.finditer(r": ([\w.]+) <-", out.decode()))
    counted = {probe.row.function: session.counts()[probe.row.point] for probe in probes}
    assert counted == {name: oracle[name] for name in counted}
    assert sum(n >= TIMES for n in counted.values()) > 3


def test_every_block_of_some_functions_is_counted(
    session: KernelSession, kernel: KernelTarget, guest: Guest, calls: Path
) -> None:
    """The functions work as before, the first blocks are entered once a call, and the text is restored."""
    names = present(kernel, MESSAGES)
    before = text_of(kernel, names)
    wanted = [f"kernel:{name}:{where}" for name in names for where in ("blocks", "blocks-post")]
    probes = [probe for points in wanted for probe in session.insert(points, "count")]
    assert text_of(kernel, names) != before
    run(guest, calls)
    counts = session.counts()
    for name in ("load_msg", "store_msg", "free_msg"):
        assert counts[f"kernel:{name}:@0:pre"] == TIMES
    refused = Counter(str(probe.refusal) for probe in probes if probe.tactic is None)
    assert sum(refused.values()) < len(probes) / 10, refused
    session.close()
    assert session.restored is True
    assert text_of(kernel, names) == before


def test_calls_that_go_on_in_another_function_are_timed_to_their_end(
    session: KernelSession, guest: Guest, calls: Path
) -> None:
    """The system call jumps to do_msgsnd, which stores the message, and returns for both."""
    probes = session.insert("kernel:__x64_sys_msgsnd:entry", "time")
    assert not any(probe.refusal for probe in probes)
    session.insert("kernel:do_msgsnd:entry", "time")
    session.insert("kernel:load_msg:entry", "stamp")
    run(guest, calls)
    samples = session.close().sort_by("time").select(["function", "kind"]).to_pylist()
    once = [
        *(("__x64_sys_msgsnd", "time-entry"), ("do_msgsnd", "time-entry"), ("load_msg", "stamp")),
        *(("do_msgsnd", "time-return"), ("__x64_sys_msgsnd", "time-return")),
    ]
    assert [(row["function"], row["kind"]) for row in samples] == once * TIMES
    assert session.restored and not session.notes


def test_a_shared_function_ends_the_calls_that_have_jumped_to_it(
    session: KernelSession, guest: Guest, calls: Path
) -> None:
    for name in ("__x64_sys_msgsnd", "__x64_sys_msgrcv"):
        session.insert(f"kernel:{name}:entry", "time")
    run(guest, calls)
    found = gilk.calls(session.close())
    assert Counter(found.table["function"].to_pylist()) == {"__x64_sys_msgsnd": TIMES, "__x64_sys_msgrcv": TIMES}
    assert (found.abandoned, found.open, found.orphans) == (0, 0, 0)


def test_another_session_does_not_take_the_ends_of_the_first(kernel: KernelTarget, guest: Guest, calls: Path) -> None:
    for _ in range(2):
        with KernelSession(kernel, points=1 << 10) as one:
            one.insert("kernel:__x64_sys_msg*:entry", "time")
            run(guest, calls, 50)
            found = gilk.calls(one.close())
        counted = Counter(found.table["function"].to_pylist())
        assert {name: counted[name] for name in ("__x64_sys_msgsnd", "__x64_sys_msgrcv", "__x64_sys_msgctl")} == {
            "__x64_sys_msgsnd": 50, "__x64_sys_msgrcv": 50, "__x64_sys_msgctl": 1,
        }  # fmt: skip
        assert (found.abandoned, found.open, found.orphans) == (0, 0, 0)


def test_calls_are_timed(session: KernelSession, guest: Guest, calls: Path) -> None:
    session.insert("kernel:load_msg:entry", "time")
    session.insert("kernel:store_msg:entry", "time")
    run(guest, calls)
    found = gilk.calls(session.close())
    assert Counter(found.table["function"].to_pylist()) == {"load_msg": TIMES, "store_msg": TIMES}
    assert (found.abandoned, found.open, found.orphans, found.cut) == (0, 0, 0, 0)
    assert set(found.table["thread"].to_pylist()) <= {"calls", "python3", "relay", ""}
    assert min(found.table["duration"].to_pylist()) > 0


CLOCK = """
import os, time
for _ in range(6):
    before = time.monotonic_ns(); os.getpgid(0); print(before, time.monotonic_ns())
    time.sleep(0.2)
"""


def test_times_are_those_of_the_other_machines_clock(session: KernelSession, guest: Guest) -> None:
    """This holds even if the machine's kernel distrusts an emulated counter: a program there reads its clock before
    and after."""
    session.insert("kernel:__x64_sys_getpgid:entry", "stamp")
    said = guest.run("python3", "-ISc", CLOCK).splitlines()
    times = [session.start + time for time in session.close()["time"].to_pylist()]
    assert len(times) == len(said) == 6
    for time, line in zip(times, said, strict=True):
        before, after = map(int, line.split())
        assert before - ALIGNED < time < after + ALIGNED


def test_arguments_and_registers_are_recorded(session: KernelSession, guest: Guest, calls: Path) -> None:
    """getpgid calls find_vpid(number) with the program's argument; both instruments see it in rdi."""
    session.insert("kernel:__x64_sys_getpgid:entry", "stamp")
    session.insert("kernel:find_get_pid:entry", "count")
    args = session.insert("kernel:find_task_by_vpid:entry", "args")
    regs = session.insert("kernel:find_task_by_vpid:entry", "regs")
    assert all(probe.tactic is not None for probe in (*args, *regs))
    run(guest, calls)
    table = session.close()
    asked = {0x1000 + i for i in range(TIMES)}
    rows = table.to_pylist()
    assert asked <= {row["arg0"] for row in rows if row["kind"] == "args"}
    assert asked <= {row["rdi"] for row in rows if row["kind"] == "regs"}
    assert sum(row["kind"] == "stamp" for row in rows) == TIMES
    times = table.sort_by("time")["time"].to_pylist()
    assert times == sorted(times)
    assert session.drain.drops() == 0


def test_points_that_another_client_has_are_refused_by_name(session: KernelSession, guest: Guest) -> None:
    """The rest of the function is instrumented without that point."""
    function, out = guest.function("__x64_sys_getppid"), bytearray()
    window = function.window(10, several=True)
    words = [str(guest.compiled("second")), hex(window[0].ip), function.bytes_of(*window).hex()]
    other = guest.link.spawn(words, out.extend, out.extend)
    guest.link.channel.until(lambda: b"\n" in out, 60)
    assert out == b"0 0\n"
    inside = window[1].ip - function.address
    points = [f"kernel:__x64_sys_getppid:{where}" for where in (f"+{inside:#x}", "return")]
    (refused,), (taken, *_) = (session.insert(point, "count") for point in points)
    assert (refused.tactic, refused.refusal) == (None, Refusal.TAKEN) and taken.tactic is not None
    guest.call("getppid", TIMES)
    assert session.counts()[taken.row.point] == TIMES
    session.close()
    other.end_input()
    assert other.wait(60) == 0
    assert session.restored is True


def test_records_are_filtered_by_process(session: KernelSession, guest: Guest) -> None:
    """Two processes do the same, one of them twice as often, and records of the other are wanted. Counts are of
    both."""
    for instrument in ("stamp", "args", "regs", "count"):
        (probe,) = session.insert("kernel:__x64_sys_getpgrp:entry", instrument)
        assert probe.tactic is not None
    calls, out = [], bytearray()
    for times in (TIMES, 2 * TIMES):
        command = f"echo $$; read go; exec {guest.program} {NUMBERS['getpgrp']} {times} 3"
        calls.append(guest.link.spawn(["sh", "-c", command], out.extend, out.extend))
        guest.link.channel.until(lambda: out.count(b"\n") == len(calls), 60)
    session.filter([int(out.split()[0])])
    for call in calls:
        call.write(b"go\n")
        call.end_input()
    assert [call.wait(60) for call in calls] == [0, 0]
    rows = session.close().to_pylist()
    assert Counter(Counter((row["tid"], row["kind"]) for row in rows).values()) == {TIMES: 3 * 3}
    assert list(session.counts().values()) == [9 * TIMES]


def test_interrupts_of_a_processor_are_recorded(kernel: KernelTarget, guest: Guest) -> None:
    """A shell waits on the second processor for children that sleep. Interrupts of that processor wake them, and
    come while no task runs there: those records belong to the processor, and no other interrupts do."""
    out = bytearray()
    script = "echo $$; read go; for n in 1 2 3 4 5; do sleep 0.1; done"
    shell = guest.link.spawn(["taskset", "-c", "1", "sh", "-c", script], out.extend, out.extend)
    guest.link.channel.until(lambda: b"\n" in out, 60)
    pid, points = int(out), {"kernel_wait4": "stamp", "hrtimer_interrupt": "time", "vfs_read": "stamp"}
    with KernelSession(kernel, points=1 << 10, interrupts=True) as session:
        session.filter([pid])
        for function, instrument in points.items():
            session.insert(f"kernel:{function}:entry", instrument)
        shell.write(b"go\n")
        shell.end_input()
        guest.run("cat", "/proc/meminfo")
        assert shell.wait(60) == 0
        rows = session.close().to_pylist()
    guest.link.close_driver()
    assert {row["function"] for row in rows if row["pid"] == pid} >= {"kernel_wait4", "vfs_read"}
    others = [row for row in rows if row["pid"] != pid and row["tid"] < 0]
    assert all(row["tid"] == row["pid"] for row in rows if row["tid"] >= 0)  # else one whose process was not known
    whose = {(row["function"], row["pid"], row["tid"], row["thread"]) for row in others}
    assert whose == {("hrtimer_interrupt", 0, -2, "interrupts of CPU 1")}
    kinds = Counter(row["kind"] for row in others)
    assert kinds[RecordKind.ENTRY] >= 5 and abs(kinds[RecordKind.ENTRY] - kinds[RecordKind.RETURN]) <= 1


def test_a_flight_recorder_keeps_the_newest_records(kernel: KernelTarget, guest: Guest, calls: Path) -> None:
    """The buffers are the smallest: of many calls the last are there, when asked for and at the end; the others were
    counted."""
    taken = []
    with KernelSession(kernel, points=1 << 10, ring=1 << 15, flight=True) as session:
        session.insert("kernel:__x64_sys_getpgid:entry", "args")
        for _ in range(2):
            run(guest, calls, 5000)
            run(guest, calls)
            assert session.poll().num_rows == 0, "they stay where they are"
            taken.append(session.newest() if not taken else session.close())
    for table in taken:
        tids = [row["tid"] for row in table.to_pylist() if row["kind"] == "args"]
        assert tids.count(tids[-1]) == TIMES
    assert session.records + session.drain.drops() == 2 * (5000 + TIMES)
    guest.link.close_driver()


def test_records_are_switched_off_and_on(session: KernelSession, guest: Guest, calls: Path) -> None:
    session.insert("kernel:__x64_sys_getpgid:entry", "stamp")
    for on in (True, False, True):
        session.record(on)
        run(guest, calls)
    session.filter([1])
    run(guest, calls)
    session.filter(None)
    run(guest, calls)
    session.filter(())
    run(guest, calls)
    assert session.close().num_rows == 3 * TIMES


INSTRUMENTS = """\
#include <gilk.h>
#include <linux/sched.h>
#include <linux/msg.h>
#include <linux/jiffies.h>

void simple_instr(unsigned int iid)
{
	ilk_log_integer_sample(gilk_time(), iid);
}

void whose(unsigned int iid)
{
	ilk_log_pair_sample(current->pid, jiffies, iid);
}

void name_of_task(const struct gilk_regs *regs, unsigned int iid)
{
	ilk_log_string_sample(current->comm, iid);
}

static unsigned long calls;

void counts_itself(unsigned int iid)
{
	ilk_log_integer_sample(++calls, iid);
}

void size_of_message(const struct gilk_regs *regs, unsigned int iid)
{
	ilk_log_integer_sample(((struct msg_msg *)regs->rdi)->m_ts, iid);
}

void prints(unsigned int iid)
{
	static bool once;

	if (!once)
		printk(KERN_INFO "gilk was here\\n");
	once = true;
	ilk_log_integer_sample(1, iid);
}
"""


@pytest.fixture(scope="module")
def instruments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("instruments") / "instruments.c"
    source.write_text(INSTRUMENTS)
    return source


#: Instruments in C, and the functions at whose entries they are.
PLACES = {
    "simple_instr": "store_msg", "whose": "store_msg", "name_of_task": "store_msg", "counts_itself": "store_msg",
    "size_of_message": "free_msg", "prints": "load_msg",
}  # fmt: skip


@pytest.mark.parametrize(
    "names", [{"name_of_task", "size_of_message", "prints"}, pytest.param(set(PLACES), marks=pytest.mark.stress)],
    ids=["some", "all"],
)  # fmt: skip
def test_instruments_in_c_run_in_the_kernel(
    session: KernelSession, guest: Guest, calls: Path, instruments: Path, names: set[str]
) -> None:
    """All instruments together use the paper's form, kernel structures, text, variables of their own, a value behind a
    pointer, and printk."""
    chosen = {name: place for name, place in PLACES.items() if name in names}
    probes = [session.insert(f"kernel:{place}:entry", gilk.c(instruments, name))[0] for name, place in chosen.items()]
    assert all(probe.tactic is not None for probe in probes), [probe.refusal for probe in probes]
    run(guest, calls)
    rows = session.close().to_pylist()
    assert session.restored is True
    at_store, at_free, at_load = (
        [row for row in rows if row["function"] == name] for name in ("store_msg", "free_msg", "load_msg")
    )
    assert len(at_store) == list(chosen.values()).count("store_msg") * TIMES
    assert {row["text"] for row in at_store if row["text"]} == {"calls"}
    if names == set(PLACES):
        assert {row["value"] for row in at_store if row["extra"]} == {row["tid"] for row in at_store}
        assert set(range(1, TIMES + 1)) <= {row["value"] for row in at_store}
    assert {row["value"] for row in at_free} == {100}
    assert len(at_load) == TIMES
    assert b"gilk was here" in guest.vm.run(["dmesg"])[1]
    assert not [line for line in guest.link.read_file("/proc/modules").splitlines() if line.startswith(b"gilk_")]


@pytest.mark.parametrize(
    ("text", "slug", "said"),
    seldom(
        [
            ("void broken(unsigned int iid) { retrun; }", "does-not-compile", "retrun"),
            ("int broken(char c) { return c; }", "does-not-compile", "an instrument is void"),
            ("long secret(void); void broken(unsigned int iid) { secret(); }", "undefined-symbol", "secret"),
            ("void other(unsigned int iid) { }", "no-such-instrument", "broken"),
        ],
        1,
    ),
)
def test_c_files_that_are_no_instruments_are_refused(
    session: KernelSession, tmp_path: Path, text: str, slug: str, said: str
) -> None:
    source = tmp_path / "broken.c"
    source.write_text(f"#include <gilk.h>\n{text}\n")
    with pytest.raises(gilk.GilkError) as caught:
        session.insert("kernel:load_msg:entry", gilk.c(source, "broken"))
    assert caught.value.slug == slug
    assert said in str(caught.value)
    assert not session.probes


def test_blacklisted_functions_are_refused_by_name(session: KernelSession) -> None:
    (probe,) = session.insert("kernel:do_syscall_64:entry", "count")
    assert probe.tactic is None
    assert probe.refusal is Refusal.BLACKLISTED


def test_unknown_functions_suggest_similar_names(session: KernelSession) -> None:
    with pytest.raises(UsageError) as caught:
        session.insert("kernel:vfs_raed:entry", "count")
    assert caught.value.slug == "no-such-function"
    assert "vfs_read" in caught.value.hint


def test_a_link_that_closes_leaves_nothing_behind(kernel: KernelTarget, guest: Guest, calls: Path) -> None:
    names = present(kernel, MESSAGES)
    before = text_of(kernel, names)
    session = KernelSession(kernel, points=1 << 10)
    session.insert("kernel:load_msg:blocks", "count")
    assert text_of(kernel, names) != before
    guest.link.close_driver()
    assert text_of(kernel, names) == before
    run(guest, calls)
