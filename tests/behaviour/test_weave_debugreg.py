# SPDX-License-Identifier: LGPL-2.1-or-later
"""Accesses that debug registers show: aspects that say `debugreg` see every one that valgrind's lackey sees, also from
assembler, and programs are as before once the weaver, or its keeper, was killed."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

import gilk
from gilk.api.aspects import read_aspects
from gilk.engines.aspect.weaving import Weaving
from gilk.errors import GilkError, TargetError, UsageError
from gilk.targets import ptrace
from gilk.targets.debug_registers import MOST, DebugRegisters, WatchedPiece
from gilk.targets.status import status_of
from gilk.targets.trapping import ignores
from tests.behaviour.accessed_program import AccessedVariable, build, kept, made, seen_by_valgrind
from tests.behaviour.advised import Rounds, aspects, rounds
from tests.behaviour.advised import build as build_rounds
from tests.behaviour.harness import differences, leftovers
from tests.behaviour.test_keeper_killed import kill_before, killed, stands
from tests.behaviour.test_weave_access import declared, lines_without_addresses, printed, weave
from tests.behaviour.waiting import wait_for
from tests.seldom import seldom


def has_registers() -> bool:
    """Whether this machine lets gilk have debug registers."""
    apart = ctypes.create_string_buffer(16)
    at = ctypes.addressof(apart) + 7 & -8
    try:
        DebugRegisters([WatchedPiece(at, 8, 0, 1)], [os.getpid()]).close()
    except TargetError:
        return False
    return True


pytestmark = pytest.mark.skipif(not has_registers(), reason="debug registers are not permitted, or not there")

#: Every access goes through a pointer that has escaped, many from instructions that gilk cannot weave.
ASSEMBLER = r"""
#include <stdio.h>
#include <string.h>
long x = 3, y; long *p = &x;
static void step(long n)
{
	long a = n, one = 1, *s = p, *d = &y;
	double half = 0.5;
	__asm__ volatile("mov %1, %0" : "=r"(a) : "m"(*p));
	__asm__ volatile("movq %0, %1" :: "r"(a + n), "m"(*p) : "memory");
	__asm__ volatile("incq %0" : "+m"(*p) :: "cc");
	__asm__ volatile("addq (%1), %0" : "+r"(a) : "r"(p) : "cc");
	__asm__ volatile("rep movsq" : "+S"(s), "+D"(d), "+c"(one) :: "memory");
	s = &y, d = p;
	__asm__ volatile("movsq" : "+S"(s), "+D"(d) :: "memory");
	one = 8, d = p;
	__asm__ volatile("rep stosb" : "+D"(d), "+c"(one) : "a"(n) : "memory");
	one = 8, d = (long *)((char *)p + 7);
	__asm__ volatile("std; rep stosb; cld" : "+D"(d), "+c"(one) : "a"(n + 1) : "memory");
	s = p;
	__asm__ volatile("mov (%0), %0" : "+r"(s));
	__asm__ volatile("push %0; pop %0" : "+m"(*p));
	__asm__ volatile("movq (%0), %%xmm5; punpcklqdq %%xmm5, %%xmm5" :: "r"(p) : "xmm5");
	__asm__ volatile("movhps %%xmm5, (%0)" :: "r"(p) : "memory");
	__asm__ volatile("xaddq %0, (%1)" : "+r"(a) : "r"(p) : "memory", "cc");
	__asm__ volatile("fldl %1; fstpl (%0)" :: "r"(p), "m"(half) : "memory");
	memcpy(p, &a, sizeof a);
}
int main(void)
{
	long n;
	for (n = 1; n <= 20; n++)
		step(n);
	printf("%p %ld\n", (void *)main, x);
	return 0;
}
"""
X = AccessedVariable("x", "long", False)


def counting(variables: tuple[AccessedVariable, ...]) -> str:
    return "".join(
        f"table {way}_{one.name} key(unsigned long, long) count;\n"
        f"debugreg {kind}({declared(one)} {one.name}) && size(s) && offset(o) then after {{ add({way}_{one.name}, s, o, 1); }};\n"
        for one in variables
        for kind, way in (("readGlobal", "r"), ("writeGlobal", "w"))
    )


def by_way(counts: Counter[tuple[str, int, int]]) -> Counter[str]:
    """How many accesses are reads and how many are writes: debug registers do not tell their sizes."""
    found: Counter[str] = Counter()
    for (way, _, _), count in counts.items():
        found[way] += count
    return found


def differing(path: Path, variables: tuple[AccessedVariable, ...], place: Path) -> list[str]:
    """All differences in the counts, and the lines that the program prints only with advice."""
    expected, alone = seen_by_valgrind(path, place, variables), printed(path)
    lines, found = weave(path, counting(variables), place)
    counts = [
        f"{name}: lackey {by_way(expected[name])}, woven {by_way(found.get(name, Counter()))}"
        for name in expected
        if by_way(expected[name]) != by_way(found.get(name, Counter()))
    ]
    return counts + [line for line in lines_without_addresses(lines) if line not in alone]


@pytest.mark.stress
def test_advice_sees_what_lackey_sees_also_by_assembler(tmp_path: Path) -> None:
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(ASSEMBLER)
    subprocess.run(["gcc", "-O1", "-mno-red-zone", "-o", program, source], check=True)
    with pytest.raises(UsageError, match=r"\bx gets out of sight"):
        weave(program, counting((X,)).replace("debugreg ", ""), tmp_path)
    assert differing(program, (X,), tmp_path) == []


@pytest.mark.parametrize("seed", seldom(range(6), 1))
def test_advice_sees_the_accesses_that_lackey_sees(seed: int, tmp_path: Path) -> None:
    program = made(seed)
    path = build(tmp_path, program, ("gcc", "clang")[seed % 2], f"-O{seed % 4}")
    assert differing(path, tuple(one for one in kept(path, program.variables) if one.is_whole)[:MOST], tmp_path) == []


#: The first round begins two threads that store and load all the time, and the next one ends them.
BUSY = """
#include <pthread.h>
long shared = 5;
static long *volatile where = &shared;
static int stop;
static void *work(void *unused)
{
	long wrong = 0;

	(void)unused;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		*(volatile long *)where = 5;
		wrong += *(volatile long *)where != 5;
	}
	return (void *)wrong;
}
static void one_round(void)
{
	static pthread_t ids[2];
	static int on;
	void *one, *other;

	if (on ^= 1) {
		stop = 0;
		pthread_create(ids, 0, work, 0);
		pthread_create(ids + 1, 0, work, 0);
		puts("begun");
		return;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(ids[0], &one);
	pthread_join(ids[1], &other);
	printf("%ld\\n", (long)one + (long)other);
}
"""
STORES = "debugreg writeGlobal(long shared) && value(v) && if (v == 5) then after { };"


def variable(pid: int, name: str) -> int:
    """Where a variable of the main program lies, as nm and the program's mappings tell."""
    symbols = subprocess.run(["nm", f"/proc/{pid}/exe"], check=True, capture_output=True, text=True).stdout
    (offset,) = re.findall(rf"^([0-9a-f]+) . {name}$", symbols, re.MULTILINE)
    return int(offset, 16) + int(Path(f"/proc/{pid}/maps").read_text().split("-")[0], 16)


def ignores_traps(pid: int) -> bool:
    return ignores(status_of(pid))


def weave_until_killed(pid: int, file: Path) -> int:
    """Fork a weaver, and return its pid once it has woven and seen many accesses."""
    inside, outside = os.pipe()
    child = os.fork()
    if not child:
        try:
            with gilk.attach(pid) as target, gilk.weave(file, target) as woven:
                wait_for(lambda: woven.counts()[0].matches[0] > 100)
                os.write(outside, b"x")
                signal.pause()
        finally:
            os._exit(1)
    os.close(outside)
    assert os.read(inside, 1) == b"x"
    os.close(inside)
    return child


def test_a_killed_weaver_leaves_nothing(tmp_path: Path) -> None:
    with rounds(build_rounds(tmp_path, BUSY)) as program:
        assert program.ask() == "begun"
        weaver = weave_until_killed(program.pid, aspects(tmp_path, STORES))
        assert ignores_traps(program.pid)
        os.kill(weaver, signal.SIGKILL)
        os.waitpid(weaver, 0)
        assert wait_for(lambda: not stands(program.pid) and not leftovers(program.pid))
        assert not ignores_traps(program.pid) and not differences(program.pid)
        assert program.ask() == "0"


@pytest.mark.parametrize("rounds_of", [2, pytest.param(40, marks=pytest.mark.stress)])
def test_aspects_come_and_go_while_threads_store(rounds_of: int, tmp_path: Path) -> None:
    with rounds(build_rounds(tmp_path, BUSY)) as program:
        assert program.ask() == "begun"
        for _ in range(rounds_of):
            work(program.pid, aspects(tmp_path, STORES))
            assert not ignores_traps(program.pid) and not leftovers(program.pid) and not stands(program.pid)
        assert program.ask() == "0"


def keepers_death(pid: int, file: Path) -> None:
    """Kill the keeper while threads get signals all the time, then restore the program."""
    with pytest.raises(TargetError, match="has gone"), gilk.attach(pid) as target, gilk.weave(file, target) as woven:
        assert wait_for(lambda: woven.counts()[0].matches[0] > 100)
        os.kill(ptrace.tracer_of(pid), signal.SIGKILL)
        assert wait_for(lambda: not stands(pid))
        assert ignores_traps(pid)
    gilk.restore(pid)
    assert not stands(pid) and not ignores_traps(pid) and not differences(pid)


def test_a_killed_keeper_leaves_a_program_that_goes_on(tmp_path: Path) -> None:
    with rounds(build_rounds(tmp_path, BUSY)) as program:
        assert program.ask() == "begun"
        keepers_death(program.pid, aspects(tmp_path, STORES))
        assert program.ask() == "0"


#: Rounds: a thread's first instruction but a few is a store; a forked child stores; the process executes grep.
BEGINNERS = """
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
long shared;
static long *volatile where = &shared;
static void *store(void *value) { *where = (long)value; return 0; }
static void one_round(void)
{
	static long n;
	pthread_t id;
	int status = -1;

	switch (++n) {
	case 1:
		pthread_create(&id, 0, store, (void *)7);
		pthread_join(id, 0);
		puts("joined");
		return;
	case 2:
		if (!fork()) {
			store((void *)8);
			_exit(3);
		}
		wait(&status);
		printf("%d %ld\\n", WEXITSTATUS(status), shared);
		return;
	default:
		execl("/bin/grep", "grep", "SigIgn:", "/proc/self/status", (char *)0);
	}
}
"""


def test_new_threads_have_the_registers_and_children_and_other_programs_do_not(tmp_path: Path) -> None:
    text = 'debugreg writeGlobal(long shared) && value(v) && old(o) then after { report("%ld %ld", o, v); };'
    with rounds(build_rounds(tmp_path, BEGINNERS)) as program, gilk.attach(program.pid) as target:
        with gilk.weave(aspects(tmp_path, text), target) as woven:
            assert (program.ask(), program.ask()) == ("joined", "3 7")
            assert [one.text for one in woven.reports()] == ["0 7"]
            ignored = int(program.ask().split()[1], 16)
            assert not ignored & 1 << signal.SIGTRAP - 1
            assert wait_for(lambda: not stands(program.pid))


def refusal(pid: int, file: Path) -> str:
    with pytest.raises(GilkError) as error, gilk.attach(pid) as target, gilk.weave(file, target):
        pass
    assert not ignores_traps(pid) and not leftovers(pid) and not stands(pid)
    return f"{error.value.slug}: {error.value.message}"


HANDLES = """
#include <signal.h>
long shared, many[5];
static volatile sig_atomic_t traps;
static void handler(int number) { traps += number == SIGTRAP; }
static void one_round(void) { signal(SIGTRAP, handler); raise(SIGTRAP); printf("%d\\n", (int)traps); }
"""


def test_registers_that_cannot_be_had_are_refused_by_name(tmp_path: Path) -> None:
    stores = "debugreg writeGlobal(long shared) then after { };"
    with rounds(build_rounds(tmp_path, HANDLES)) as program:
        at = variable(program.pid, "shared")
        many = aspects(
            tmp_path, "%{ struct five { long all[5]; }; %}\ndebugreg writeGlobal(struct five many) then after { };"
        )
        assert re.match(r"no-means: .* would take 5", refusal(program.pid, many))
        taken = DebugRegisters([WatchedPiece(at, 8, 0, 1)] * MOST, ptrace.thread_ids(program.pid))
        try:
            found = refusal(program.pid, aspects(tmp_path, stores))
        finally:
            taken.close()
        assert found.startswith("no-debug-registers") and "in use" in found
        assert program.ask() == "1"
        found = refusal(program.pid, aspects(tmp_path, stores))
        assert found.startswith("no-debug-registers") and "handles SIGTRAP" in found


#: A thread that blocks SIGTRAP stores; the program's own SIGALRM comes all the time, and its handler stores.
BLOCKS = """
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
long shared;
static long *volatile where = &shared;
static volatile sig_atomic_t alarms;
static void handler(int unused) { (void)unused; *where = 1; alarms++; }
static void *store(void *unused)
{
	sigset_t all;
	long n;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, 0);
	for (n = 0; n < 3; n++)
		*where = 2;
	return unused;
}
static void one_round(void)
{
	struct itimerval every = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };
	pthread_t id;
	long n;

	pthread_create(&id, 0, store, 0);
	pthread_join(id, 0);
	signal(SIGALRM, handler);
	setitimer(ITIMER_REAL, &every, 0);
	for (n = 0; n < 300 || alarms < 20; n++)
		*where = 3;
	setitimer(ITIMER_REAL, &never, 0);
	printf("%d %ld\\n", (int)alarms, n);
}
"""


def test_signals_come_through_and_threads_that_block_the_trap_are_counted(tmp_path: Path) -> None:
    text = "table stores key(long) count;\ndebugreg writeGlobal(long shared) && value(v) then after { add(stores, v, 1); };"
    with rounds(build_rounds(tmp_path, BLOCKS)) as program, gilk.attach(program.pid) as target:
        with gilk.weave(aspects(tmp_path, text), target) as woven:
            alarms, stores = map(int, program.ask().split())
            rows = {int.from_bytes(row.key[:8], "little"): row.count for row in woven.tables()[0].rows}
        (summary,) = woven.summaries()
        assert sum(rows.values()) + summary.inside == alarms + stores, "a handler that interrupts advice has none"
        assert "3 accesses went without advice: threads that had blocked SIGTRAP made them" in summary.notes


def work(pid: int, file: Path) -> None:
    with gilk.attach(pid) as target, gilk.weave(file, target) as woven:
        assert wait_for(lambda: woven.counts()[0].matches[0] > 30)


def killed_before(program: Rounds, file: Path, limit: int) -> bool:
    """Kill the keeper before it touches the process for the ``limit``-th time, with two busy threads; returns whether
    it was killed before the work was done."""
    made = killed(lambda pid: work(pid, file), program.pid, kill_before(limit))
    assert wait_for(lambda: not stands(program.pid)), limit
    assert program.process.poll() is None, (limit, program.process.returncode)
    with suppress(TargetError):  # there may be nothing to restore
        gilk.restore(program.pid)
    assert not ignores_traps(program.pid) and not differences(program.pid), limit
    return made


@pytest.mark.parametrize("limits", [(95, 160, 260), pytest.param(range(1, 400, 3), marks=pytest.mark.stress)])
def test_the_keeper_is_killed_at_any_step(limits: Sequence[int], tmp_path: Path) -> None:
    file = aspects(tmp_path, STORES)
    with rounds(build_rounds(tmp_path, BUSY)) as program:
        assert program.ask() == "begun"
        for limit in limits:
            assert killed_before(program, file, limit)
        assert program.ask() == "0"


def test_dry_runs_name_the_variables_and_what_stays_needs_a_keeper(tmp_path: Path) -> None:
    file = aspects(tmp_path, STORES)
    with rounds(build_rounds(tmp_path, BUSY)) as program, gilk.attach(program.pid) as target:
        (one,) = gilk.weave(file, target, dry_run=True).shadows
        assert (one.image, one.function, one.registers, one.refused) == ("program", "shared", 1, "")
        with pytest.raises(UsageError, match="keeper"):
            Weaving(read_aspects(file), {program.pid: ()}, [target.process], persist=True)
        assert not ignores_traps(program.pid) and not leftovers(program.pid)
