# SPDX-License-Identifier: LGPL-2.1-or-later
"""lockstat in a live stock kernel, beside the events that ftrace records of the same work."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import ran
from tests.kernel.session.test_d_programs import TOLD, TRACING, shell
from tests.kernel.session.test_d_tables import BEGIN, END

pytestmark = pytest.mark.xdist_group("lab")
TRIES = 10
EVENT = re.compile(r"^ *\S.*?-(\d+) +\[.*: contention_(begin|end): (\S+) \((?:flags|ret)=(\S+)\)$", re.MULTILINE)
#: Two writers to one open file wait for its mutex; two that have opened it themselves wait for its rw_semaphore.
WORK = """
    command='dd if=/dev/zero bs=1M count=20 status=none'
    { $command & $command & wait; } > /dev/shm/locked
    $command of=/dev/shm/locked conv=notrunc & $command of=/dev/shm/locked conv=notrunc & wait"""
NAMES = {"MUTEX": "adaptive-block", "SPIN|MUTEX": "adaptive-spin", "SPIN": "spin-spin"}
PROGRAM = """
    lockstat:::adaptive-block, lockstat:::adaptive-spin, lockstat:::spin-spin /ppid == $target/ {
        @[probename, tid, 0] = count(); @least = min(arg1); @all[tid] = sum(arg1); }
    lockstat:::rw-spin /ppid == $target/ {
        @[probename, tid, args[2] == RW_WRITER] = count(); @least = min(arg1); @all[tid] = sum(arg1); }
    lockstat:::rw-block /ppid == $target/ {
        @[probename, tid, args[2] == RW_WRITER] = count(); @least = min(args[1]); @all[tid] = sum(args[1]);
        @held[args[0]->owner.counter != 0] = count(); }
    BEGIN { begun = timestamp; }
    END { printa("%s %d %d %@d\\n", @); printa("least %@d\\n", @least); printa("all %d %@d\\n", @all);
        printf("lasted %d\\n", timestamp - begun); }"""


def name_of(flags: str) -> tuple[str, str] | None:
    """The probe for a wait with such flags, and "1" for a writer; None if no probe is about it."""
    words = set(flags.split("|"))
    if words & {"READ", "WRITE"} and words <= {"READ", "WRITE", "SPIN"}:
        return "rw-spin" if "SPIN" in words else "rw-block", str(int("WRITE" in words))
    found = NAMES.get(flags)
    return (found, "0") if found else None


def waits(said: str) -> Counter[tuple[str, str, str]]:
    """The waits whose end ftrace saw, by probe, task and side."""
    begun: dict[tuple[str, str], tuple[str, str] | None] = {}
    found: Counter[tuple[str, str, str]] = Counter()
    for task, what, lock, rest in EVENT.findall(said):
        if what == "begin":
            begun[task, lock] = name_of(rest)
        elif (kind := begun.pop((task, lock), None)) is not None:
            found[kind[0], task, kind[1]] += 1
    return found


def test_lock_waits_are_those_that_ftrace_sees(kernel: KernelTarget, guest: Guest) -> None:
    """The children of a shell wait; the test repeats that until both kinds of waits have been seen."""
    shell(guest, "mountpoint -q /dev/shm || { mkdir -p /dev/shm; mount -t tmpfs none /dev/shm; }")
    kinds: set[str] = set()
    for _ in range(TRIES):
        shell(guest, BEGIN.format(events="lock/contention_begin lock/contention_end"))
        done = ran(kernel, PROGRAM, ["sh", "-c", WORK])
        theirs = waits(shell(guest, END))
        rows = [line.split() for line in done.lines]
        ours = {tuple(row[:3]): int(row[3]) for row in rows if "-" in row[0]}
        tasks = {task for _, task, _ in ours}
        assert ours == {key: count for key, count in theirs.items() if key[1] in tasks} and not done.errors
        told = {row[0]: int(row[-1]) for row in rows}
        assert all(0 < int(row[-1]) <= told["lasted"] for row in rows if row[0] in ("least", "all"))
        kinds |= {row[0] for row in rows}
        if {"adaptive-block", "rw-block"} <= kinds:
            break
    assert {"adaptive-block", "rw-block"} <= kinds
    shell(guest, "rm -f /dev/shm/locked")
    assert not guest.complaints()


def test_subroutines_tell_who_holds_a_lock(kernel: KernelTarget) -> None:
    """As the kernel's own rules have it: mutex_lock() returns to the owner, which did not own it before; pids are
    detached where the list of tasks is locked for writing."""
    text = """
        fbt::mutex_lock:entry /pid == $target/ {
            self->lock = (struct mutex *)arg0;
            @["before", mutex_owned(self->lock)] = count();
        }
        fbt::mutex_lock:return /pid == $target && self->lock != NULL/ {
            @["after", mutex_owned(self->lock) && mutex_owner(self->lock) == curthread] = count();
            @["kind", mutex_type_adaptive(self->lock) && !mutex_type_spin(self->lock)] = count();
            self->lock = NULL;
        }
        fbt::detach_pid:entry {
            this->list = &`tasklist_lock;
            @["list", rw_write_held(this->list) && rw_iswriter(this->list) && !rw_read_held(this->list)] = count();
        }
        END { printa("%s %d\\n", @); }"""
    assert sorted(ran(kernel, text, ["sh", "-c", "ls -l /proc/self/fd | sort"]).lines) == [
        "after 1", "before 0", "kind 1", "list 1"
    ]  # fmt: skip


SAVING, RESTORING = ("", "_irq", "_irqsave", "_bh"), ("", "_irq", "_irqrestore", "_bh")
#: What a call of each function means; it ends with a question mark if the function may fail to get the lock.
MEANINGS = {
    **dict.fromkeys(("mutex_lock", "mutex_lock_interruptible", "mutex_lock_killable"), "adaptive-acquire"),
    **{"mutex_trylock": "adaptive-acquire?", "mutex_unlock": "adaptive-release"},
    **{f"_raw_spin_lock{kind}": "spin-acquire" for kind in SAVING},
    **{"_raw_spin_trylock": "spin-acquire?", "_raw_spin_trylock_bh": "spin-acquire?"},
    **{f"_raw_spin_unlock{kind}": "spin-release" for kind in RESTORING},
    **{f"_raw_{side}_lock{kind}": f"rw-acquire {side}" for side in ("read", "write") for kind in SAVING},
    **{f"_raw_{side}_trylock": f"rw-acquire {side}?" for side in ("read", "write")},
    **{f"_raw_{side}_unlock{kind}": f"rw-release {side}" for side in ("read", "write") for kind in RESTORING},
}
MUTEX = "adaptive-acquire"
#: A call in a task, not in an interrupt.
CALL = re.compile(r"^ *\S.*?-(\d+) +\[\d+\] ..[.bnNp].. .*: (\w+) <-", re.MULTILINE)
TAKEN = """
    BEGIN { printf("%d\\n", $target); }
    lockstat:::spin-acquire, lockstat:::spin-release, lockstat:::adaptive-release /pid == $target && !ipl/ {
        printf("%s\\n", probename); }
    lockstat:::adaptive-acquire /pid == $target && !ipl/ {
        printf("%s\\n", probename); @[(args[0]->owner.counter & ~7) == (int64_t)curthread] = count(); }
    lockstat:::rw-acquire, lockstat:::rw-release /pid == $target && !ipl/ {
        printf("%s %s\\n", probename, args[1] == RW_READER ? "read" : "write"); }
    lockstat:::adaptive-acquire-error /pid == $target/ { printf("error %d\\n", args[1]); }
    END { printa("mine %d %@d\\n", @); }"""


#: Has ftrace record programs that run, and all that they start, but not the kernel's own tasks and idle processors.
OF_PROGRAMS = """
echo 8192 > buffer_size_kb
echo 1 > options/function-fork
for each in /proc/[0-9]*; do readlink $each/exe > /dev/null && echo ${each#/proc/} >> set_ftrace_pid; done; true
"""
OF_ALL = "echo > set_ftrace_pid; echo 0 > options/function-fork"


def is_whole(said: str) -> bool:
    """Whether ftrace still has all calls that it has recorded: the oldest make room if there are too many."""
    kept, written = re.findall(r"entries-in-buffer/entries-written: (\d+)/(\d+)", said)[0]
    return kept == written


def follow(ours: list[str], theirs: list[str]) -> bool:
    """Whether `ours` is a contiguous part of `theirs`, whose members with a question mark may be missing. A mutex may
    be taken later than it is asked for: before it tries, mutex_lock() lets another task run that waits for the
    processor.
    """
    at = {(place, False) for place in range(len(theirs))}
    for word in ours:
        at = {found for place, waits in at for found in _behind(word, theirs, place, waits)}
    return bool(at)


def _behind(word: str, theirs: list[str], place: int, waits: bool) -> Iterator[tuple[int, bool]]:
    """The places behind the next ``word``, and whether a mutex has been asked for there that is not yet taken.
    ``waits``: the same of ``place``."""
    if waits and word == MUTEX:
        yield place, False
    while place < len(theirs):
        if theirs[place].rstrip("?") == word:
            yield place + 1, waits
        if theirs[place] == MUTEX and not waits:
            waits = True
        elif not theirs[place].endswith("?"):
            return
        place += 1


@pytest.mark.stress
def test_locks_are_taken_and_let_go_as_ftrace_sees_the_calls(kernel: KernelTarget, guest: Guest) -> None:
    """Processes that are born and end take all three kinds of locks. Nobody gets a signal while he waits for one, so
    there are no errors."""
    for _ in range(TRIES):
        shell(guest, TRACING.format(names=" ".join(MEANINGS)) + OF_PROGRAMS)
        done = ran(
            kernel, TAKEN, ["sh", "-c", "for n in 1 2 3; do cat /proc/version /proc/self/status > /dev/null; done"]
        )
        said = shell(guest, TOLD + OF_ALL)
        if is_whole(said):
            break
    target, *ours = [line for line in done.lines if not line.startswith("mine")]
    theirs = [MEANINGS[name] for task, name in CALL.findall(said) if task == target]
    kinds = Counter(ours)
    assert not done.errors and done.restored and set(kinds) == {word.rstrip("?") for word in MEANINGS.values()}
    assert follow(ours, theirs), (len(ours), len(theirs))
    assert done.lines[-1] == f"mine 1 {kinds['adaptive-acquire']}"


def test_a_sequence_without_one_call_does_not_follow_another() -> None:
    assert follow(["b", "a", "c"], ["a", "b", "a?", "b?", "c", "c"])
    assert follow(["a", "b", MUTEX, "c"], ["a", MUTEX, "b", "c"]) and not follow(["a", "b", "c"], ["a", MUTEX, "b"])
    assert not follow(["a", MUTEX, MUTEX, "b"], ["a", MUTEX, "b"]) and not follow([MUTEX, "a"], ["a", MUTEX])
    assert not follow(["b", "c"], ["a", "b", "a", "c"]) and not follow(["a", "c"], ["a", "c?", "b"][::2])
