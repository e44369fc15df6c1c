# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects woven into several processes, which share their instances, tables and switches."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import gilk
from gilk.engines.aspect.weaving import Weaving
from gilk.errors import TargetError
from tests.behaviour.advised import Rounds, aspects, build, rounds
from tests.behaviour.harness import differences, leftovers, wait_for
from tests.seldom import seldom

PROGRAM = """
NOINLINE long first(long k, const char *name) { __asm__ volatile(""); return k + name[0]; }
NOINLINE long second(long k) { __asm__ volatile(""); return 2 * k; }
static void one_round(void)
{
	static long n;
	long begun = first(++n, "abc");

	printf("%ld %ld\\n", begun, second(n));
}
"""
#: The same functions; a thread writes random data over all memory that is shared with other processes.
HOSTILE = """
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
NOINLINE long first(long k, const char *name) { __asm__ volatile(""); return k + name[0]; }
NOINLINE long second(long k) { __asm__ volatile(""); return 2 * k; }
static uint64_t *low, *high;
static volatile long written;
static void *scribble(void *unused)
{
	uint64_t seed = 88172645463325252, *at;

	for (;;) {
		for (at = low; at < high; at++) {
			seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
			__atomic_store_n(at, seed & 4 ? seed : seed & 0xffff, __ATOMIC_RELAXED);
		}
		written++;
	}
	return unused;
}
static void one_round(void)
{
	char line[512];
	unsigned long from, to;
	pthread_t thread;
	FILE *maps = fopen("/proc/self/maps", "r");

	while (!low && fgets(line, sizeof line, maps))
		if (strstr(line, "gilk-memory") && sscanf(line, "%lx-%lx", &from, &to) == 2) {
			low = (uint64_t *)from, high = (uint64_t *)(from + (to - from < 1 << 18 ? to - from : 1 << 18));
			pthread_create(&thread, 0, scribble, 0);
		}
	fclose(maps);
	printf("%ld %ld\\n", written, first(1, "abc") + second(1));
}
"""
TOGETHER = """group A; group B;
table sums key(long) sum;
seq(A: call(long first(long k, const char *name)) && bind(char text[8], name) && bind(int who, pid());
    B: call(long second(long n)) && if (n == k) then { report("%ld %s of %d", n, text, who); add(sums, n, who); });
"""
#: Both processes run all elements, with instances in memory that is overwritten.
SCRIBBLED = TOGETHER.replace("seq(A:", "instances 64 unique(text) seq(A, B:").replace("    B:", "    A, B:")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("together"), PROGRAM)


@contextmanager
def several(path: Path, count: int) -> Iterator[list[Rounds]]:
    with ExitStack() as stack:
        yield [stack.enter_context(rounds(path)) for _ in range(count)]


@contextmanager
def woven(place: Path, text: str, *members: tuple[Rounds, str]) -> Iterator[Weaving]:
    with ExitStack() as stack:
        targets = [stack.enter_context(gilk.attach(one.pid)) for one, _ in members]
        groups = {one.pid: names.split() for one, names in members}
        yield stack.enter_context(gilk.weave(aspects(place, text), *targets, groups=groups))


def test_a_sequence_begins_in_one_process_and_ends_in_another(program: Path, tmp_path: Path) -> None:
    with several(program, 3) as (one, two, other):
        with woven(tmp_path, TOGETHER, (one, "A"), (two, "B")) as weaving:
            assert [two.ask(), other.ask()] == ["98 2", "98 2"]
            one.ask(), one.ask()
            assert list(weaving.reports()) == []
            two.ask()
            (report,) = weaving.reports()
            assert (report.pid, report.text) == (two.pid, f"2 abc of {one.pid}")
            (counts,) = weaving.counts()
            assert (counts.matches, counts.begun, counts.open, counts.ended) == ((2, 1), 2, 1, 1)
            (table,) = weaving.tables()
            assert [(row.key[:8], row.sum) for row in table.rows] == [((2).to_bytes(8, "little"), one.pid)]
        assert [(differences(each.pid), leftovers(each.pid)) for each in (one, two)] == [([], []), ([], [])]


def test_instances_outlive_the_process_in_which_they_began(program: Path, tmp_path: Path) -> None:
    with rounds(program) as two:
        one = Rounds(program)
        with woven(tmp_path, TOGETHER, (one, "A"), (two, "B")) as weaving:
            one.ask()
            assert one.end() == 0
            two.ask()
            assert [each.text for each in weaving.reports()] == [f"1 abc of {one.pid}"]


def test_switching_an_aspect_off_switches_it_off_in_all_processes(program: Path, tmp_path: Path) -> None:
    text = """group A;
aspect all: A: call(long second(long n)) then { report("%ld", n); };
A: call(long first(long k, const char *name)) && if (k == 2) then { aspect_off(all); };
"""
    with several(program, 2) as (one, two), woven(tmp_path, text, (one, "A"), (two, "A")) as weaving:
        assert [one.ask(), two.ask()] == ["98 2", "98 2"]
        assert len(list(weaving.reports())) == 2
        one.ask(), two.ask()
        assert list(weaving.reports()) == []


def test_a_process_joins_and_leaves_while_others_go_on(program: Path, tmp_path: Path) -> None:
    with several(program, 2) as (one, two), woven(tmp_path, TOGETHER, (one, "A")) as weaving:
        one.ask()
        with gilk.attach(two.pid) as late:
            joined = weaving.join(late.process, ["B"])
            two.ask()
            assert [each.text for each in weaving.reports()] == [f"1 abc of {one.pid}"]
            weaving.leave(joined)
            assert (differences(two.pid), leftovers(two.pid)) == ([], [])
            one.ask(), two.ask()
        (counts,) = weaving.counts()
        assert (counts.matches, list(weaving.reports())) == ((2, 1), [])


def test_a_process_that_cannot_map_the_shared_memory_refuses_all(program: Path, tmp_path: Path) -> None:
    """The process's descriptor table is full."""
    with several(program, 2) as (one, two):
        few = len(os.listdir(f"/proc/{two.pid}/fd"))
        with gilk.attach(one.pid) as first, gilk.attach(two.pid) as second:
            resource.prlimit(two.pid, resource.RLIMIT_NOFILE, (few + 1, few + 1))
            with pytest.raises(TargetError, match=r"cannot map the memory|cannot be given") as raised:
                gilk.weave(aspects(tmp_path, TOGETHER), first, second)
            assert raised.value.slug == "refused-by-kernel"
            assert [one.ask(), two.ask()] == ["98 2", "98 2"]
        assert [(differences(each.pid), leftovers(each.pid)) for each in (one, two)] == [([], []), ([], [])]


@pytest.mark.parametrize("asked", seldom([1000, 3000], 1))
def test_a_process_that_overwrites_the_shared_state_spoils_only_the_counts(
    program: Path, tmp_path: Path, asked: int
) -> None:
    hostile = build(tmp_path, HOSTILE)
    with rounds(program) as good:
        bad = Rounds(hostile)
        with woven(tmp_path, SCRIBBLED, (good, "A"), (bad, "B")) as weaving:
            assert wait_for(lambda: int(bad.ask().split()[0]) > 0)
            for n in range(1, asked):
                assert good.ask() == f"{97 + n} {2 * n}"
            list(weaving.reports())
            weaving.counts(), weaving.tables()
            bad.process.send_signal(signal.SIGKILL)
            bad.process.wait()
        assert (differences(good.pid), leftovers(good.pid)) == ([], [])
        for stream in (bad.process.stdin, bad.process.stdout):
            stream and stream.close()
