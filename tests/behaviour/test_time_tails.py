# SPDX-License-Identifier: LGPL-2.1-or-later
"""Timed calls of functions that end in jumps to others: they end where those return. Counts of calls, and the order of
records, are plain facts about the programs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gilk.session.broker.client_session import ClientSession
from gilk.session.session import Session
from gilk.targets.process import Process, attach
from gilk.trace.calls import CallTable, pair
from tests.behaviour.advised import COMPILERS, TAILS, Rounds, build, jumps, rounds
from tests.behaviour.harness import differences, leftovers
from tests.behaviour.test_advice_tails import CHAIN, LEFT, MUTUAL, PLAIN, THROWN, WRITTEN

Make = Callable[[Process], Session | ClientSession]
SESSIONS = pytest.mark.parametrize("make", [Session, ClientSession])


@contextmanager
def timed(program: Rounds, make: Make, *functions: str) -> Iterator[Session | ClientSession]:
    with attach(program.pid) as process, make(process) as session:
        for function in functions:
            assert all(probe.refusal is None for probe in session.insert(f"{function}:entry", "time"))
        yield session


def calls(session: Session | ClientSession) -> tuple[Counter[str], CallTable]:
    found = pair(session.close())
    assert not found.orphans and not found.cut and session.restored
    return Counter(found.table["function"].to_pylist()), found


def all_whole(session: Session | ClientSession) -> Counter[str]:
    counted, found = calls(session)
    assert (found.abandoned, found.open) == (0, 0)
    return counted


@SESSIONS
@pytest.mark.parametrize("compiler", COMPILERS)
def test_each_call_ends_once_also_where_others_share_the_function_that_is_jumped_to(
    tmp_path: Path, make: Make, compiler: str
) -> None:
    program = build(tmp_path, CHAIN, *TAILS, compiler=compiler)
    assert jumps(program, "first", "middle") and jumps(program, "middle", "last") and jumps(program, "two", "shared")
    with rounds(program) as running:
        with timed(running, make, "first") as session:
            assert [running.ask() for _ in range(3)] == [PLAIN] * 3
            assert all_whole(session) == {"first": 3}
        with timed(running, make, "both", "one", "two", "shared", "middle", "last", "first") as session:
            assert [running.ask() for _ in range(2)] == [PLAIN] * 2
            expected = {"first": 2, "middle": 2, "last": 2, "one": 4, "two": 6, "both": 4, "shared": 10}
            assert all_whole(session) == expected
            assert not session.notes
        assert not differences(running.pid) and not leftovers(running.pid)


@SESSIONS
def test_the_end_of_a_call_lies_behind_what_the_function_does_that_is_jumped_to(tmp_path: Path, make: Make) -> None:
    with rounds(build(tmp_path, CHAIN, *TAILS)) as running, timed(running, make, "first", "middle") as session:
        session.insert("last:return", "stamp")
        running.ask()
        running.ask()
        samples = session.close().sort_by("time").select(["function", "kind"]).to_pylist()
    once = [
        *(("first", "time-entry"), ("middle", "time-entry"), ("last", "stamp")),
        *(("middle", "time-return"), ("first", "time-return")),
    ]
    assert [(row["function"], row["kind"]) for row in samples] == once * 2


@SESSIONS
@pytest.mark.parametrize("compiler", COMPILERS)
def test_calls_left_by_longjmp_are_not_confused_with_later_calls(tmp_path: Path, make: Make, compiler: str) -> None:
    """Both functions are called from one place, at the same depth."""
    program = build(tmp_path, LEFT, *TAILS, compiler=compiler)
    assert jumps(program, "first", "last")
    with rounds(program) as running:
        with timed(running, make, "first") as session:
            running.ask()
            counted, found = calls(session)
        assert counted == {"first": 200} and found.abandoned + found.open == 400
        with timed(running, make, "last", "first") as session:
            running.ask()
            counted, found = calls(session)
        assert counted == {"first": 200, "last": 600} and found.abandoned + found.open == 400 + 200


@SESSIONS
def test_calls_that_go_on_by_conditional_jumps_end_where_these_lead(tmp_path: Path, make: Make) -> None:
    with rounds(build(tmp_path, WRITTEN, *TAILS)) as running, timed(running, make, "first", "begins") as session:
        assert [running.ask() for _ in range(2)] == ["5 7 11 40 40 40"] * 2
        counted, found = calls(session)
    assert counted == {"first": 4, "begins": 4} and found.abandoned + found.open == 2  # those that longjmp leaves


@SESSIONS
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_call_that_comes_back_to_its_function_by_jumps_is_one_call(tmp_path: Path, make: Make, compiler: str) -> None:
    program = build(tmp_path, MUTUAL, *TAILS, compiler=compiler)
    assert jumps(program, "even", "odd") and jumps(program, "odd", "even")
    with rounds(program) as running:
        with timed(running, make, "even", "from") as session:
            running.ask()
            assert all_whole(session) == {"even": 3, "from": 2}
        with timed(running, make, "from", "odd", "even") as session:
            running.ask()
            assert all_whole(session) == {"even": 3, "from": 2, "odd": 3}


@SESSIONS
def test_exceptions_leave_calls_without_an_end(tmp_path: Path, make: Make) -> None:
    with rounds(build(tmp_path, THROWN, *TAILS, compiler="g++")) as running:
        with timed(running, make, "first", "last") as session:
            running.ask()
            counted, found = calls(session)
    assert counted == {"first": 240, "last": 400} and found.abandoned + found.open == 160 + 80


#: A signal comes while a timed call goes on, on a stack of its own, and its handler makes such calls; by turns it
#: returns, or leaves by siglongjmp, with the interrupted call.
SIGNALS = """
#include <setjmp.h>
#include <signal.h>
#define HIDDEN __asm__ volatile("")
static sigjmp_buf back;
static volatile long inside, leaves;
NOINLINE long last(long n) { HIDDEN; if (n > 1000) raise(SIGUSR1); HIDDEN; return n + 1; }
NOINLINE long first(long n) { HIDDEN; return last(n * 2); }
static void handler(int number)
{
	inside += first(number) + last(number);
	if (leaves) siglongjmp(back, 1);
}
static void one_round(void)
{
	static char stack[65536];
	stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
	volatile long sum = 0;
	sigaltstack(&other, 0);
	sigaction(SIGUSR1, &action, 0);
	for (volatile long n = 0; n < 100; n++) {
		leaves = n % 2;
		if (!sigsetjmp(back, 1)) sum += first(1000 + n);
		else sum += last(7);
	}
	printf("%ld\\n", sum);
}
"""


@SESSIONS
def test_signal_handlers_make_timed_calls_while_one_goes_on(tmp_path: Path, make: Make) -> None:
    with rounds(build(tmp_path, SIGNALS, *TAILS)) as running:
        plain = running.ask()
        with timed(running, make, "first") as session:
            assert running.ask() == plain
            counted, found = calls(session)
    assert counted == {"first": 100 + 50} and found.abandoned + found.open == 50


THREADS = """
#include <pthread.h>
#define HIDDEN __asm__ volatile("")
NOINLINE long last(long n) { HIDDEN; return n + 1; }
NOINLINE long middle(long n) { HIDDEN; return last(n + 1); }
NOINLINE long first(long n) { HIDDEN; return middle(n + 1); }
static void *run(void *n) { long sum = 0; for (long i = 0; i < 100; i++) sum += first((long)n); return (void *)sum; }
static void one_round(void)
{
	static pthread_t thread[200];
	long sum = 0;
	void *got;
	for (long n = 0; n < 200; n++) pthread_create(&thread[n], 0, run, (void *)n);
	for (long n = 0; n < 200; n++) { pthread_join(thread[n], &got); sum += (long)got; }
	printf("%ld\\n", sum);
}
"""


@SESSIONS
def test_hundreds_of_threads(tmp_path: Path, make: Make) -> None:
    with rounds(build(tmp_path, THREADS, *TAILS)) as running, timed(running, make, "first", "middle") as session:
        assert running.ask() == str(sum(100 * (n + 3) for n in range(200)))
        assert all_whole(session) == {"first": 20000, "middle": 20000}


#: Each call begins in one thread, waits in the function that is jumped to, and returns in another thread.
MOVED = """
#include <pthread.h>
#include <ucontext.h>
#define HIDDEN __asm__ volatile("")
static ucontext_t here, there[8];
static char stacks[8][65536];
static long results[8], current;
NOINLINE long last(long n) { HIDDEN; long mine = current; swapcontext(&there[mine], &here); HIDDEN; return n + 1; }
NOINLINE long one(long n) { HIDDEN; return last(n + 10); }
NOINLINE long two(long n) { HIDDEN; return last(n + 20); }
static long (*volatile table[2])(long) = {one, two};
static void body(void) { long mine = current; results[mine] = table[mine % 2](mine); }
static void *go_on(void *unused)
{
	for (current = 0; current < 8; current++) swapcontext(&here, &there[current]);
	return unused;
}
static void one_round(void)
{
	pthread_t thread;
	long sum = 0;
	for (current = 0; current < 8; current++) {
		getcontext(&there[current]);
		there[current].uc_stack.ss_sp = stacks[current];
		there[current].uc_stack.ss_size = sizeof stacks[current];
		there[current].uc_link = &here;
		makecontext(&there[current], body, 0);
		swapcontext(&here, &there[current]);
	}
	pthread_create(&thread, 0, go_on, 0);
	pthread_join(thread, 0);
	for (int n = 0; n < 8; n++) sum += results[n];
	printf("%ld\\n", sum);
}
"""


@SESSIONS
def test_calls_of_coroutines_that_return_in_another_thread(tmp_path: Path, make: Make) -> None:
    with rounds(build(tmp_path, MOVED, *TAILS)) as running, timed(running, make, "one", "two") as session:
        assert [running.ask() for _ in range(3)] == [str(sum(range(8)) + 4 * 10 + 4 * 20 + 8)] * 3
        assert all_whole(session) == {"one": 12, "two": 12}


def test_a_client_that_leaves_does_not_disturb_another(tmp_path: Path) -> None:
    with rounds(build(tmp_path, CHAIN, *TAILS)) as running, timed(running, ClientSession, "first", "two") as lasting:
        for _ in range(3):
            with timed(running, ClientSession, "first", "middle", "one") as other:
                running.ask()
                found = pair(other.close())
            counted = Counter(found.table["function"].to_pylist())
            assert counted == {"first": 1, "middle": 1, "one": 2} and (found.abandoned, found.open) == (0, 0)
            running.ask()
        assert all_whole(lasting) == {"first": 6, "two": 18}
        assert not differences(running.pid) and not leftovers(running.pid)


def test_probes_are_removed_and_made_dormant_while_others_go_on(tmp_path: Path) -> None:
    with rounds(build(tmp_path, CHAIN, *TAILS)) as running, timed(running, Session, "one") as session:
        dormant = session.insert("two:entry", "time", active=False)
        running.ask()
        session.activate(dormant)
        running.ask()
        session.deactivate(dormant)
        running.ask()
        session.remove(probe for probe in session.probes if probe.row.function == "one")
        assert running.ask() == PLAIN
        assert all_whole(session) == {"one": 6, "two": 3}


def long_chain(length: int) -> str:
    """Functions f0 to f{length - 1}, of which each jumps to the next."""
    made = [f"NOINLINE long f{length - 1}(long n) {{ HIDDEN; return n + 1; }}"]
    made += [f"NOINLINE long f{n}(long n) {{ HIDDEN; return f{n + 1}(n + 1); }}" for n in reversed(range(length - 1))]
    return (
        '#define HIDDEN __asm__ volatile("")\n'
        + "\n".join(made)
        + """
static void one_round(void) { printf("%ld\\n", f0(0)); }
"""
    )


@SESSIONS
def test_ends_for_which_there_is_no_room_are_counted(tmp_path: Path, make: Make) -> None:
    """At most sixteen calls of one frame can go on elsewhere."""
    with rounds(build(tmp_path, long_chain(20), *TAILS)) as running, attach(running.pid) as process:
        with make(process) as session:
            for n in range(20):
                session.insert(f"f{n}:entry", "time")
            assert [running.ask() for _ in range(5)] == ["20"] * 5
            found = pair(session.close())
            assert session.drain.drops() == 5 * 3
            assert found.orphans == 0 and len(found.table) + found.cut == 5 * 17
            assert found.abandoned + found.open == 5 * 3


#: Children end in the function that is jumped to, at the same place of the stack as the parent's call later.
ENDING = """
#include <sys/wait.h>
#include <unistd.h>
#define HIDDEN __asm__ volatile("")
NOINLINE long last(long n) { HIDDEN; if (n == 0) _exit(0); return n + 1; }
NOINLINE long first(long n) { HIDDEN; return last(n * 2); }
static void one_round(void)
{
	long sum = 0;
	for (volatile long n = 0; n <= 40; n++) {
		int child = n < 40 ? fork() : 0;
		if (child > 0) { waitpid(child, 0, 0); continue; }
		sum += first(n / 40);
	}
	printf("%ld\\n", sum);
}
"""


@SESSIONS
def test_children_that_end_within_a_call_leave_room_for_others(tmp_path: Path, make: Make) -> None:
    with rounds(build(tmp_path, ENDING, *TAILS)) as running, attach(running.pid) as process, make(process) as session:
        session.insert("first:entry", "time")
        assert [running.ask() for _ in range(2)] == ["3", "3"]
        table = pair(session.close()).table
        assert table["pid"].to_pylist() == [running.pid] * 2


ANYWHERE = """
#define HIDDEN __asm__ volatile("")
NOINLINE long last(long n) { HIDDEN; return n + 1; }
static long (*volatile table[1])(long) = {last};
NOINLINE long first(long n) { HIDDEN; return table[0](n * 2); }
static void one_round(void) { printf("%ld\\n", first(4)); }
"""


@SESSIONS
def test_the_report_names_functions_whose_calls_end_at_the_jump(tmp_path: Path, make: Make) -> None:
    with rounds(build(tmp_path, ANYWHERE, *TAILS)) as running, timed(running, make, "first") as session:
        session.insert("last:entry", "stamp")
        running.ask()
        samples = session.close().sort_by("time")
        assert samples["kind"].to_pylist() == ["time-entry", "time-return", "stamp"]
    (note,) = session.notes
    assert "the time of calls ends at the jump" in note and "a pointer leads, at +0x" in note


#: One way through the first function leads to a return, one through a pointer, and one to a function that ends by it.
PARTLY = """
#define HIDDEN __asm__ volatile("")
NOINLINE long last(long n) { HIDDEN; return n + 1; }
static long (*volatile table[1])(long) = {last};
NOINLINE long middle(long n) { HIDDEN; return table[0](n * 2); }
NOINLINE long first(long n)
{
	HIDDEN;
	if (n == 1) return last(n + 3);
	if (n == 2) return table[0](n + 4);
	return middle(n + 5);
}
static void one_round(void) { printf("%ld\\n", first(1) + first(2) + first(3)); }
"""


@SESSIONS
@pytest.mark.parametrize("compiler", COMPILERS)
def test_calls_end_at_a_jump_through_a_pointer_and_no_earlier(tmp_path: Path, make: Make, compiler: str) -> None:
    program = build(tmp_path, PARTLY, *TAILS, compiler=compiler)
    assert jumps(program, "first", "last") and jumps(program, "first", "middle")
    with rounds(program) as running, timed(running, make, "first") as session:
        for point in ("middle:entry", "last:entry"):
            session.insert(point, "stamp")
        assert running.ask() == "29"
        samples = session.close().sort_by("time")
        seen = [row["function"] if row["kind"] == "stamp" else row["kind"] for row in samples.to_pylist()]
    begins, ends = "time-entry", "time-return"
    assert seen == [*(begins, "last", ends), *(begins, ends, "last"), *(begins, "middle", ends, "last")]
    (note,) = session.notes
    assert "first ends in a jump to wherever" in note and "middle ends in a jump to wherever" in note


def one_byte(name: str) -> str:
    return f".globl {name}; .type {name}, @function; {name}: ret; .size {name}, . - {name};"


#: Functions of one byte each, at low addresses: nothing can lead from there to a patch.
CRAMPED = f"""
long first(long n), last(long n);
__asm__(".text; .p2align 4; .skip 16, 0xcc; {"".join(one_byte(f"before{n}") for n in range(200))}"
	"{one_byte("last")} {"".join(one_byte(f"behind{n}") for n in range(200))}"
	".globl first; .type first, @function; first: lea 1(%rdi), %rax; test %rax, %rax; jne last; ret; .size first, . - first;");
static void one_round(void) {{ printf("%ld\\n", first(4)); }}
"""


@SESSIONS
def test_calls_end_at_the_jump_where_an_instrument_behind_it_is_refused(tmp_path: Path, make: Make) -> None:
    with rounds(build(tmp_path, CRAMPED, *TAILS, "-no-pie")) as running:
        with attach(running.pid) as process, make(process) as session:
            (probe,) = session.insert("last:entry", "count")
            assert probe.refusal is not None
        with timed(running, make, "first") as session:
            assert [running.ask() for _ in range(3)] == ["5"] * 3
            assert all_whole(session) == {"first": 3}
        (note,) = session.notes
        assert "first (at +0x" in note and f"{probe.refusal} at program:last+0x0" in note
        assert not differences(running.pid) and not leftovers(running.pid)


def run(program: Path, points: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "gilk", "run", "-i", points, "--json", "--", program]
    done = subprocess.run(command, input="\n\n\n", capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def test_a_run_times_calls_to_their_end_and_says_where_it_cannot(tmp_path: Path) -> None:
    report = run(build(tmp_path, CHAIN, *TAILS), "first:entry=time")
    assert report["latency"]["first"]["count"] == 3
    assert not any("jump" in note for note in report["notes"])
    report = run(build(tmp_path, ANYWHERE, *TAILS), "f[i]rst=@time")
    assert report["latency"]["first"]["count"] == 3
    assert ["first ends in a jump" in note for note in report["notes"]] == [True]


def test_samples_have_plain_kinds(tmp_path: Path) -> None:
    """Files and their readers know nothing of calls that go on elsewhere."""
    with rounds(build(tmp_path, CHAIN, *TAILS)) as running, timed(running, Session, "two") as session:
        running.ask()
        samples = session.close()
    assert isinstance(samples, pa.Table)
    assert Counter(samples["kind"].to_pylist()) == {"time-entry": 3, "time-return": 3}
    assert Counter(probe.row.function for probe in session.probes) == {"two": 3}
