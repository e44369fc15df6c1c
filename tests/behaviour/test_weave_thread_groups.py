# SPDX-License-Identifier: LGPL-2.1-or-later
"""Threads that join groups and leave them by themselves, as the model has it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gilk
from gilk.engines.aspect.membership import Members, read_choices
from gilk.engines.aspect.tending import Tender
from gilk.engines.aspect.thread_groups import ThreadGroups, ThreadTable
from gilk.errors import GilkError
from gilk.lang.aspect.events import read_events
from gilk.lang.aspect.lower import automata
from gilk.lang.aspect.model import AspectModel
from tests.behaviour.advised import Rounds, aspects, build, rounds
from tests.behaviour.harness import differences, leftovers, run_gilk, wait_for
from tests.behaviour.test_weavings import matches, shown
from tests.lang.aspect.files import checked

#: Each round, four threads call `hit` one after the other, and then do what the round says for them. The first round
#: prints their numbers, each later one what all calls have returned.
PROGRAM = """
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>
NOINLINE long hit(long k) { __asm__ volatile(""); return 2 * k; }
NOINLINE void enlist(int n) { __asm__ volatile("" : : "r"(n)); }
NOINLINE void quit(int n) { __asm__ volatile("" : : "r"(n)); }
NOINLINE void retire(int n) { __asm__ volatile("" : : "r"(n)); }
static struct worker { pthread_t id; sem_t go, done; int tid, over; } workers[4];
static int round_number = -1;
static long sum;
static void deeds(int n)
{
	switch (10 * round_number + n) {
	case 21: case 52: case 73: enlist(n); return;
	case 41: quit(n); return;
	case 60: retire(n); return;
	case 83: workers[n].over = 1;
	}
}
static void *work(void *at)
{
	struct worker *own = at;
	own->tid = (int)syscall(SYS_gettid);
	for (int deed = 0; !own->over; deed = !deed) {
		sem_post(&own->done);
		sem_wait(&own->go);
		if (deed) deeds((int)(own - workers)); else sum += hit(round_number);
	}
	sem_post(&own->done);
	return at;
}
static void all(void)
{
	for (int n = 0; n < 4; n++)
		if (!workers[n].over) {
			sem_post(&workers[n].go);
			sem_wait(&workers[n].done);
			if (workers[n].over) pthread_join(workers[n].id, 0);
		}
}
static void one_round(void)
{
	if (round_number++ < 0) {
		for (int n = 0; n < 4; n++) {
			sem_init(&workers[n].go, 0, 0);
			sem_init(&workers[n].done, 0, 0);
			pthread_create(&workers[n].id, 0, work, workers + n);
			sem_wait(&workers[n].done);
			printf("%d ", workers[n].tid);
		}
		puts("");
		return;
	}
	all();
	all();
	printf("%ld\\n", sum);
}
"""
TEXT = """
group A; group B;
aspect enlists: A: call(void enlist(int n)) then { join(B, tid()); };
aspect quits: A: call(void quit(int n)) then { leave(B, tid()); };
aspect retires: A: call(void retire(int n)) then { leave(A, tid()); };
aspect of_a: A: call(long hit(long k));
aspect of_b: B: call(long hit(long k)) && return(r) then after { report("%d %ld", tid(), r); };
aspect pairs: perthread seq(A: call(long hit(long k)); B: call(long hit(long other)) *; A: call(void retire(int n)));
"""
ROUNDS = 11
#: By round and thread, as the program has it.
DEEDS = {(2, 1): "enlist", (5, 2): "enlist", (7, 3): "enlist", (4, 1): "quit", (6, 0): "retire"}
ENDS = (8, 3)
NAMES = ("enlists", "quits", "retires", "of_a", "of_b", "pairs")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("threads"), PROGRAM, "-O2", "-g", "-pthread")


def events(pid: int, tids: list[int]) -> Iterator[str]:
    """The calls of all rounds but the first, as the model takes them."""
    yield json.dumps({"groups": {"A": [pid], "B": []}})
    ended = set[int]()
    for number in range(1, ROUNDS + 1):
        there = [n for n in range(4) if n not in ended]
        for n in there:
            who = {"pid": pid, "tid": tids[n]}
            yield json.dumps({"call": "hit", "args": [number], **who})
            yield json.dumps({"return": "hit", "value": 2 * number, **who})
        for n in there:
            who = {"pid": pid, "tid": tids[n]}
            if (number, n) in DEEDS:
                yield json.dumps({"call": DEEDS[number, n], "args": [n], **who})
                yield json.dumps({"return": DEEDS[number, n], **who})
            if (number, n) == ENDS:
                ended.add(n)
                yield json.dumps({"exit": "thread", **who})


def modelled(pid: int, tids: list[int]) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """The matches of each aspect, and the reports, as the model has them."""
    file = checked(TEXT).file
    assert file is not None
    model = AspectModel(automata(file))
    deeds = [deed for found in model.run(read_events(list(events(pid, tids)))) for deed in found]
    return {name: each.matches for name, each in model.counts().items()}, [
        one.words for one in deeds if one.did == "reports"
    ]


def tids_of(one: Rounds) -> list[int]:
    return [int(word) for word in one.ask().split()]


def test_threads_join_and_leave_as_in_the_model(program: Path, tmp_path: Path) -> None:
    with rounds(program) as one, gilk.attach(one.pid) as target:
        tids = tids_of(one)
        weaving = gilk.weave(aspects(tmp_path, TEXT), target, groups={one.pid: ["A"]})
        members, refused = Members(read_choices(f"A={one.pid}"), ["A", "B"]), dict[int, GilkError]()
        reports = list[str]()
        with weaving, Tender(weaving, members, refused.__setitem__) as tender:
            for _ in range(ROUNDS):
                one.ask()
                reports += [each.text for each in weaving.reports()]
                tender.tend()
            assert weaving.processes[0].groups == ("A",), "the process itself has joined nothing"
            found = {each.name: each.matches for each in weaving.counts()}
        assert refused == {}
        assert (found, reports) == modelled(one.pid, tids)
        pairs = sum(range(2, 4)) + sum(range(5, 11)) + 7  # each moves all instances that its thread has begun
        assert [len(reports), found["of_a"][0], found["pairs"][1]] == [2 + 6 + 1, ROUNDS * 3 + 8 - 5, pairs]
        assert (differences(one.pid), leftovers(one.pid)) == ([], [])


PYTHON = """
import os, queue, sys, threading
def work(own):
    while word := own.get():
        os.getpriority(os.PRIO_PROCESS, 0) if word == "joins" else os.getsid(0)
        done.put(None)
done, queues = queue.Queue(), [queue.Queue() for _ in range(3)]
for each in queues:
    thread = threading.Thread(target=work, args=(each,), daemon=True)
    thread.start()
    print(thread.native_id, flush=True)  # here, for threads may print in any order
for line in sys.stdin:
    for each in queues[1:2] if line == "joins\\n" else queues:
        each.put(line.strip()); done.get()
    print("done", flush=True)
"""


def test_a_thread_of_python_is_the_one_that_python_says(tmp_path: Path) -> None:
    path = aspects(
        tmp_path,
        """group A; group B;
        A: call(int libc:getpriority(int which, int who)) then { join(B, tid()); };
        B: call(int libc:getsid(int pid)) then { report("%d", tid()); };""",
    )
    command = [sys.executable, "-c", PYTHON]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as python:
        assert python.stdin is not None and python.stdout is not None

        def ask(word: str) -> str:
            assert python.stdin is not None and python.stdout is not None
            python.stdin.write(f"{word}\n")
            python.stdin.flush()
            return python.stdout.readline().strip()

        native = [python.stdout.readline().strip() for _ in range(3)]
        with gilk.attach(python.pid) as target:
            weaving = gilk.weave(path, target, groups={python.pid: ["A"]})
            members, refused = Members(read_choices(f"A={python.pid}"), ["A", "B"]), dict[int, GilkError]()
            with weaving, Tender(weaving, members, refused.__setitem__) as tender:
                for word in ("asks", "joins"):
                    assert ask(word) == "done"
                    assert list(weaving.reports()) == []
                tender.tend()
                assert ask("asks") == "done"
                assert [one.text for one in weaving.reports()] == [native[1]]
        assert (refused, differences(python.pid)) == ({}, [])
        python.stdin.close()


def test_a_thread_of_a_process_that_nobody_has_woven_joins(program: Path, tmp_path: Path) -> None:
    with rounds(program) as asks, rounds(program) as asked, gilk.attach(asks.pid) as target:
        tids_of(asks)
        tids = tids_of(asked)
        text = f"""group A; group B;
            A: call(long hit(long k)) && if (k == 1) then {{ join(B, {tids[2]}); }};
            B: call(long hit(long k)) then {{ report("%d %ld", tid(), k); }};"""
        weaving = gilk.weave(aspects(tmp_path, text), target, groups={asks.pid: ["A"]})
        members, refused = Members(read_choices(f"A={asks.pid}"), ["A", "B"]), dict[int, GilkError]()
        with weaving, Tender(weaving, members, refused.__setitem__) as tender:
            asks.ask()
            list(weaving.reports())
            tender.tend()
            assert [(each.process.pid, each.groups, each.of_threads) for each in weaving.processes] == [
                (asks.pid, ("A",), ()), (asked.pid, (), ("B",)),
            ]  # fmt: skip
            asked.ask()
            assert [each.text for each in weaving.reports()] == [f"{tids[2]} 1"]
        assert refused == {}
        assert [differences(each.pid) for each in (asks, asked)] == [[], []]


MEMBERS = """
group A; group B;
aspect of_a: A: call(long hit(long k)) then { report("%d", tid()); };
aspect of_b: B: call(long hit(long k)) then { report("%d in B", tid()); };
aspect pairs: perthread seq(A: call(long hit(long k)); A: call(long hit(long other)));
aspect anywhere: call(long hit(long k));
"""


def test_threads_are_members_from_the_beginning(program: Path, tmp_path: Path) -> None:
    with rounds(program) as one, rounds(program) as whole:
        tids, others = tids_of(one), tids_of(whole)
        with gilk.weave(aspects(tmp_path, MEMBERS), A=[tids[1], tids[3], whole.pid], B=tids[1]) as weaving:
            assert [one.ask(), whole.ask()] == ["8", "8"], "the program's own results"
            expected = [str(tids[1]), f"{tids[1]} in B", str(tids[3]), *map(str, others)]
            assert sorted(each.text for each in weaving.reports()) == sorted(expected)
            one.ask()
            found = {each.name: each.matches for each in weaving.counts()}
            assert found == {"of_a": (2 * 2 + 4,), "of_b": (2,), "pairs": (2 * 2 + 4, 2), "anywhere": (2 * 4 + 4,)}
            with pytest.raises(GilkError) as raised:
                weaving.add("A", tids[0])
            assert raised.value.slug == "no-such-process"
        assert [(differences(each.pid), leftovers(each.pid)) for each in (one, whole)] == [([], [])] * 2


def test_threads_are_given_on_the_command_line(program: Path, tmp_path: Path) -> None:
    """The weaver knows them as those that have joined by themselves: a thread of the same process may join later."""
    path = aspects(tmp_path, MEMBERS + "A: call(void enlist(int n)) then { join(A, pid()); };")
    with rounds(program) as one:
        tids = tids_of(one)
        refused = run_gilk("weave", path, "-p", str(tids[1]), "--for", "1")
        assert f"{tids[1]} is a thread of process {one.pid} (no-such-process)" in refused.stderr
        dry = run_gilk("weave", path, "-g", f"A={tids[1]}", "--dry-run")
        assert "each hit asks whether its thread is a member" in dry.stdout and dry.returncode == 0
        done = run_gilk("weave", path, "-g", f"A={tids[1]},{tids[2]}", "-g", f"B={tids[2]}", "-d")
        assert done.returncode == 0, done.stderr
        number = done.stdout.strip()
        try:
            one.ask()
            assert [each["matches"] for each in shown(int(number))["aspects"]] == [[2], [1], [2, 0], [4], [0]]
            one.ask()  # thread 1 has its process join
            assert wait_for(lambda: one.ask() and matches(int(number))["of_a"] >= 2 * 2 + 4)
        finally:
            assert run_gilk("aspect", "remove", number).returncode == 0
        assert (differences(one.pid), leftovers(one.pid)) == ([], [])


def test_the_table_has_room_for_threads_that_come_after_others_have_ended() -> None:
    view = memoryview(bytearray(64 + (16 << 10)))
    table = ThreadTable(view, 64, ("A",))
    there = ThreadGroups(1).changed("A", True)
    assert not all(table.put(tid, there) for tid in range(1, 3000)), "there is room for 1024"
    for tid in range(1, 3000):
        table.drop(tid)
    assert int.from_bytes(view[48:56], "little") == 0
    for tid in range(3000, 6000):
        assert table.put(tid, there)
        table.drop(tid)
