# SPDX-License-Identifier: LGPL-2.1-or-later
"""Weavings that stay when the weaver is killed, in all processes or in none, and that are found and taken out later."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import gilk
from gilk.errors import TargetError
from tests.behaviour.advised import Rounds, build, rounds
from tests.behaviour.harness import differences, leftovers, run_gilk, wait_for
from tests.behaviour.test_weavings import PROGRAM, matches

FIX = """group A;
aspect fix: A: call(long one(long k)) then inplace { return proceed() + 100; };
aspect pair: seq(A: call(long one(long k)); A: call(long two(long k)) then inplace { return -1; });
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("persist"), PROGRAM)


@contextmanager
def woven(place: Path, *targets: Rounds) -> Iterator[int]:
    """Weave into the targets. Yields the number of the weaver, which the block may kill."""
    (place / "fix.aspect").write_text(FIX)
    pids = [word for one in targets for word in ("-p", str(one.pid))]
    done = run_gilk("weave", place / "fix.aspect", *pids, "-d", "--persist")
    assert done.returncode == 0, done.stderr
    number = int(done.stdout)
    try:
        yield number
    finally:
        run_gilk("aspect", "remove", str(number))


def listed(number: int) -> dict[str, Any]:
    found = json.loads(run_gilk("aspect", "list", "--json").stdout)["weavings"]
    one: dict[str, Any] = next((one for one in found if one["id"] == number), {})
    return one


def kill(number: int) -> None:
    """Kill the weaver, and wait until only what it has left in its processes answers for it."""
    os.kill(number, signal.SIGKILL)
    assert wait_for(lambda: bool(listed(number).get("abandoned")))


def test_a_persistent_weaving_stays_when_the_weaver_is_killed(program: Path, tmp_path: Path) -> None:
    with rounds(program) as one, rounds(program) as other, woven(tmp_path, one, other) as number:
        assert [each.ask() for each in (one, other)] == ["102 -1", "102 -1"]
        kill(number)
        assert [each.ask() for each in (one, other)] == ["104 -1", "104 -1"]
        found = listed(number)
        assert (found["file"], sorted(found["pids"])) == (
            str(tmp_path / "fix.aspect"), sorted((one.pid, other.pid)),
        )  # fmt: skip
        assert matches(number) == {"fix": 4, "pair": 4}  # the sum of both processes
        assert "its weaver has gone" in run_gilk("aspect", "show", str(number)).stdout
        assert run_gilk("aspect", "off", str(number), "fix").returncode == 0
        assert [each.ask() for each in (one, other)] == ["6 -1", "6 -1"]
        assert run_gilk("aspect", "on", str(number)).returncode == 0
        assert "(no-such-aspect)" in run_gilk("aspect", "on", str(number), "none").stderr
        assert one.ask() == "108 -1"
        assert run_gilk("aspect", "remove", str(number)).returncode == 0
        assert [each.ask() for each in (one, other)] == ["10 15", "8 12"]
        assert [differences(each.pid) for each in (one, other)] == [[], []]
        assert not listed(number)
        assert "(no-such-weaving)" in run_gilk("aspect", "show", str(number)).stderr


def test_gilk_restore_removes_a_persistent_weaving_from_one_process(program: Path, tmp_path: Path) -> None:
    with rounds(program) as one, rounds(program) as other, woven(tmp_path, one, other) as number:
        with pytest.raises(TargetError) as raised:
            gilk.restore(one.pid)
        assert raised.value.slug == "in-session"
        kill(number)
        gilk.restore(one.pid)
        assert (one.ask(), other.ask(), differences(one.pid)) == ("2 3", "102 -1", [])
        assert listed(number)["pids"] == [other.pid]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_weaver_that_is_told_to_end_leaves_nothing(program: Path, tmp_path: Path, how: signal.Signals) -> None:
    with rounds(program) as one, woven(tmp_path, one) as number:
        assert one.ask() == "102 -1"
        os.kill(number, how)
        assert wait_for(lambda: not listed(number))
        assert wait_for(lambda: (differences(one.pid), leftovers(one.pid)) == ([], []))
        assert one.ask() == "4 6"


def test_a_session_refused_by_a_weaving_is_told_how_to_remove_that(program: Path, tmp_path: Path) -> None:
    """This holds while the weaver is there and when it has gone: nobody takes out a fix unknowingly."""
    with rounds(program) as one, woven(tmp_path, one) as number:
        refused = run_gilk("run", "-i", "program:two:entry=count", "-p", str(one.pid), "--for", "1")
        assert (refused.returncode, "(gs-in-use)" in refused.stderr) == (4, True), refused.stderr
        assert f"`gilk aspect remove {number}`" in refused.stderr
        kill(number)
        refused = run_gilk("run", "-i", "program:two:entry=count", "-p", str(one.pid), "--for", "1")
        assert (refused.returncode, "(gs-in-use)" in refused.stderr) == (4, True), refused.stderr
        assert "`gilk aspect list`" in refused.stderr and f"`gilk restore {one.pid}`" in refused.stderr
        assert one.ask() == "102 -1"


#: Each round begins 1400 threads, eight at a time, and prints how many of their calls had which result. A few threads
#: stay: they have called before the weaver was killed, and call again in each round.
THREADS = """
#include <pthread.h>
#include <semaphore.h>
NOINLINE long one(long k) { __asm__ volatile(""); return 2 * k; }
NOINLINE long two(long k) { __asm__ volatile(""); return 3 * k; }
static long plain, fixed, wrong;
static sem_t begin[4], end[4];
static void call(void)
{
	long result = one(3);

	__atomic_fetch_add(result == 6 ? &plain : result == 106 ? &fixed : &wrong, 1, __ATOMIC_RELAXED);
}
static void *brief(void *p) { call(); return p; }
static void *staying(void *p)
{
	for (long n = (long)p;;) {
		sem_wait(&begin[n]);
		call();
		sem_post(&end[n]);
	}
	return 0;
}
static void one_round(void)
{
	static int begun;
	pthread_t id[8];

	for (long n = 0; n < 4; n++) {
		if (!begun) {
			sem_init(&begin[n], 0, 0);
			sem_init(&end[n], 0, 0);
			pthread_create(id, 0, staying, (void *)n);
		}
		sem_post(&begin[n]);
		sem_wait(&end[n]);
	}
	begun = 1;
	for (int k = 0; k < 175; k++) {
		for (int n = 0; n < 8; n++) pthread_create(&id[n], 0, brief, 0);
		for (int n = 0; n < 8; n++) pthread_join(id[n], 0);
	}
	printf("%ld %ld %ld\\n", plain, fixed, wrong);
	plain = fixed = wrong = 0;
}
"""
CALLS = 1400 + 4


@pytest.mark.stress
def test_threads_have_their_advice_however_many_there_were_before(tmp_path: Path) -> None:
    """A weaving that stays has buffers for 1024 threads, which those that have ended leave to later ones."""
    with rounds(build(tmp_path, THREADS)) as one:
        assert one.ask() == f"{CALLS} 0 0"
        with woven(tmp_path, one) as number:
            kill(number)
            assert [one.ask() for _ in range(3)] == [f"0 {CALLS} 0"] * 3
        assert one.ask() == f"{CALLS} 0 0"
        assert differences(one.pid) == []
