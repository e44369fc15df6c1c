# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sequences that eight threads run at once: the program itself logs each transition, and the log of each instance
must be a path of the automaton. Advice that goes while threads run leaves nothing behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from gilk.api.aspects import read_aspects
from gilk.engines.aspect.weaving import Weaving
from gilk.lang.aspect.code import unit
from gilk.lang.aspect.woven import AspectCounts
from gilk.targets.process import attach
from gilk.toolchain.compilers import NATIVE
from tests.behaviour.advised import build as build_rounds
from tests.behaviour.advised import rounds
from tests.behaviour.harness import differences, leftovers, wait_for
from tests.behaviour.test_advice_stress import BUSY
from tests.behaviour.woven_program import Commanded, build, commanded
from tests.seldom import seldom

#: "go N KEYS" has the threads make N calls each; "last K" calls last(K). Both print how often each function was called.
THREADS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define NOINLINE __attribute__((noinline, noclone))
#define KEEP __asm__ volatile("")
#define LOGGED (1L << 22)
static struct { long id, element, key, tag; } entries[LOGGED];
static long logged, fresh, calls[5];
static long many, keys;
NOINLINE long next_id(void) { return __atomic_add_fetch(&fresh, 1, __ATOMIC_RELAXED); }
NOINLINE void log_it(long id, long element, long key, long tag)
{
	long at = __atomic_fetch_add(&logged, 1, __ATOMIC_RELAXED);

	if (at >= LOGGED) abort();
	entries[at].id = id; entries[at].element = element; entries[at].key = key; entries[at].tag = tag;
}
NOINLINE long first(long k) { KEEP; return k; }
NOINLINE long middle(long k) { KEEP; return k; }
NOINLINE long again(long k) { KEEP; return k; }
NOINLINE long last(long k) { KEEP; return k; }
NOINLINE long stop(long k) { KEEP; return k; }
static long (*const functions[5])(long) = {first, middle, again, last, stop};
static void call(long which, long k)
{
	if (functions[which](k) != k) abort();
	__atomic_fetch_add(calls + which, 1, __ATOMIC_RELAXED);
}
static void *thread(void *p)
{
	unsigned long state = (unsigned long)p * 0x9e3779b97f4a7c15UL + 1;

	for (long n = 0; n < many; n++) {
		state ^= state << 13; state ^= state >> 7; state ^= state << 17;
		call("\0\0\0\1\1\1\1\2\2\2\3\3\3\3\3\4"[state >> 20 & 15], (long)(state >> 32) % keys);
	}
	return 0;
}
int main(int argc, char **argv)
{
	char line[64], word[16];
	long a, b;
	pthread_t id[8];

	if (argc < 2) return 1;
	setvbuf(stdout, 0, _IOLBF, 0);
	while (fgets(line, sizeof line, stdin)) {
		a = b = 0;
		sscanf(line, "%15s %ld %ld", word, &a, &b);
		if (!strcmp(word, "go")) {
			many = a, keys = b;
			for (long n = 0; n < 8; n++) pthread_create(id + n, 0, thread, (void *)n);
			for (long n = 0; n < 8; n++) pthread_join(id[n], 0);
		} else if (!strcmp(word, "last")) {
			call(3, a);
		} else if (!strcmp(word, "log")) {
			FILE *file = fopen(argv[1], "wb");
			fwrite(entries, sizeof *entries, (size_t)logged, file);
			fclose(file);
			logged = 0;
		}
		printf("%ld %ld %ld %ld %ld\n", calls[0], calls[1], calls[2], calls[3], calls[4]);
	}
	return 0;
}
"""

HEAD = "%{ extern long next_id(void); extern void log_it(long id, long element, long key, long tag); %}\n"
#: The second element matches once, which shows if two threads took one instance; the third matches any number of times.
KEYED = """
aspect it: {options} var(long id = next_id()) seq(
    call(long first(long k)) && bind(long tag, k * 7 + 3) then {{ log_it(id, 0, k, k * 7 + 3); }};
    call(long middle(long k)) then {{ log_it(id, 1, k, tag); }};
    call(long again(long k)) then {{ log_it(id, 2, k, tag); }} *;
    call(long last(long k)) then {{ log_it(id, 3, k, tag); }}){rest};
"""
MANY = 20_000


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("threads"), THREADS)


class Threaded:
    """The program with aspects woven in."""

    def __init__(self, program: Commanded, weaving: Weaving, place: Path) -> None:
        self.program, self._weaving, self._place = program, weaving, place

    def calls(self, line: str) -> list[int]:
        return list(map(int, self.program.ask(line).split()))

    @property
    def counts(self) -> AspectCounts:
        (process,) = self._weaving.processes
        assert process.summary().missed == 0
        (found,) = self._weaving.counts()
        return found

    def log(self) -> npt.NDArray[np.int64]:
        """The log: rows of an instance, an element, a key and the value that the instance kept."""
        self.program.ask("log")
        return np.fromfile(self._place, np.int64).reshape(-1, 4)


@pytest.fixture
def running(threads: Path, tmp_path: Path) -> Iterator[Commanded]:
    with commanded(threads, str(tmp_path / "log")) as program:
        yield program
        assert not differences(program.pid) and not leftovers(program.pid)


def threaded(program: Commanded, place: Path, options: str, rest: str = "") -> Iterator[Threaded]:
    (place / "it.aspect").write_text(HEAD + KEYED.format(options=options, rest=rest))
    file = read_aspects(place / "it.aspect")
    with attach(program.pid) as process, Weaving(file, {program.pid: ()}, [process]) as weaving:
        weaving.weave()
        yield Threaded(program, weaving, place / "log")


def add_up(counts: AspectCounts) -> bool:
    return counts.begun == counts.open + counts.ended + counts.until + counts.late + counts.replaced


def wrong_paths(log: npt.NDArray[np.int64]) -> list[str]:
    """The instances whose log is no path, or that have lost the value that they kept."""
    found = []
    elements: dict[int, Counter[int]] = {}
    kept: dict[int, set[tuple[int, int]]] = {}
    for id_, element, key, tag in log.tolist():
        elements.setdefault(id_, Counter())[element] += 1
        kept.setdefault(id_, set()).add((key, tag))
    for id_, seen in elements.items():
        single = seen[0] == 1 and seen[1] <= 1 and seen[3] <= 1
        if not single or seen[1] < min(seen[2] + seen[3], 1):
            found.append(f"{id_}: {dict(seen)}")
        if len(kept[id_]) != 1 or any(tag != key * 7 + 3 for key, tag in kept[id_]):
            found.append(f"{id_}: {kept[id_]}")
    return found


OPTIONS = {
    "keyed": ("instances 4000", ""),
    "few instances": ("instances 3", ""),
    "unique": ("unique(k) instances 64", " until call(long stop(long k))"),
    "late": ("instances 64", " until call(long stop(long k)) within 20us"),
    "of each thread": ("perthread instances 512", " until call(long stop(long k))"),
    "until": ("instances 64", " until call(long stop(long k))"),
}


@pytest.mark.parametrize("what", seldom(OPTIONS, 2))
def test_the_log_of_each_instance_is_a_path_of_the_automaton_and_counts_add_up(
    what: str, running: Commanded, tmp_path: Path
) -> None:
    for one in threaded(running, tmp_path, *OPTIONS[what]):
        called = one.calls(f"go {MANY} 40")
        assert sum(called) == 8 * MANY
        counts, log = one.counts, one.log()
        assert add_up(counts), counts
        assert counts.begun + counts.lost == called[0], "each call of the first begins one, or finds no room"
        assert counts.begun == counts.matches[0]
        assert wrong_paths(log) == []
        assert counts.ended == counts.matches[3] > 0
        logged = Counter(log[:, 1].tolist())
        assert sum(logged.values()) + counts.crowded == sum(counts.matches), (logged, counts)
        assert (counts.late > 0) == (what == "late") and (counts.replaced > 0) == (what == "unique")


def test_one_of_equal_unique_instances_is_open_at_the_end(running: Commanded, tmp_path: Path) -> None:
    """One call for each key ends the instances: a call ends at most one, and at last all have ended."""
    text = "aspect it: unique(k) instances 64 seq(call(long first(long k)); call(long last(long k)));"
    (tmp_path / "it.aspect").write_text(text)
    file = read_aspects(tmp_path / "it.aspect")
    with attach(running.pid) as process, Weaving(file, {running.pid: ()}, [process]) as weaving:
        weaving.weave()
        one = Threaded(running, weaving, tmp_path / "log")
        one.calls(f"go {MANY} 3")
        assert add_up(one.counts) and one.counts.replaced > 0
        for key in range(3):
            before = one.counts.ended
            one.calls(f"last {key}")
            assert one.counts.ended - before <= 1
        assert one.counts.open == 0 and add_up(one.counts)


def test_the_test_detects_a_compare_and_swap_replaced_by_a_store(
    running: Commanded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With that mistake two threads take one instance."""
    header = (NATIVE / "include" / "gilk_aspect.h").read_text()
    sound = "return gilk_swap(&one->word, word, gilk_staged(word, stage));"
    assert header.count(sound) == 1
    header = header.replace(sound, "one->word = gilk_staged(word, stage); return 1;").replace(
        "../abi/", f"{NATIVE}/abi/"
    )
    (tmp_path / "planted.h").write_text(header)
    real = unit.head

    def planted(*given: object) -> Iterator[str]:
        for each in real(*given):  # type: ignore[arg-type]
            yield each.replace("<gilk_aspect.h>", f'"{tmp_path / "planted.h"}"')

    monkeypatch.setattr(unit, "head", planted)
    for one in threaded(running, tmp_path, "instances 64", " until call(long stop(long k))"):
        assert wait_for(
            lambda one=one: one.calls(f"go {MANY} 2") and (wrong_paths(one.log()) or not add_up(one.counts))
        )


BUSY_ASPECTS = """
%{ #include <setjmp.h> %}
call(long leaf(long a, long b, jmp_buf *back)) then inplace { return proceed() + 1000000; };
perthread var(long n = 0) seq(call(long tree(long n0, jmp_buf *back)) then { n++; }; call(long leaf(long a, long b, jmp_buf *back)) then { n++; } *;
    call(double stacked(int a, double b, long c, long d, long e, long f, long g, long h, float i, long j)) && return(r)
        then after { n += r == 67; });
instances 100 seq(call(long tree(long m, jmp_buf *back)) && return(r); call(long tree(long m, jmp_buf *back)) && if (m == r) *;
    call(long leaf(long m, long b, jmp_buf *back))) until call(long leaf(long a, long b, jmp_buf *back)) && if (a == 0);
"""


def test_aspects_come_and_go_while_threads_run(tmp_path: Path) -> None:
    path = tmp_path / "busy.aspect"
    path.write_text(BUSY_ASPECTS)
    file = read_aspects(path)
    with rounds(build_rounds(tmp_path, BUSY)) as program:
        assert program.ask().startswith("0 ")
        with attach(program.pid) as process:
            for n in range(4):
                with Weaving(file, {program.pid: ()}, [process]) as weaving:
                    weaving.weave()
                    assert program.ask().startswith("0 "), n
                    assert wait_for(lambda weaving=weaving: sum(one.begun for one in weaving.counts()))
                assert program.ask().startswith("0 "), n
                assert not [each for each in differences(program.pid) if "/program" in each], n
        assert program.ask() == "0 1 1"
        assert not differences(program.pid) and not leftovers(program.pid)
