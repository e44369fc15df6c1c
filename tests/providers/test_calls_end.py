# SPDX-License-Identifier: LGPL-2.1-or-later
"""Return probes of processes fire when the call is over, also where its function ends in a jump to another one; plain
arithmetic gives the results."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.behaviour.advised import COMPILERS, TAILS, jumps
from tests.behaviour.test_advice_tails import CHAIN, LEFT, MUTUAL, THROWN, WRITTEN
from tests.providers.sessions import Traced, traced
from tests.providers.test_local_listing import listed

ONCE = """
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline, noclone))
%s
int main(void) { %s return 0; }
"""


def build(place: Path, source: str, main: str = "one_round();", compiler: str = "gcc") -> Path:
    path, output = place / f"program.{'cpp' if compiler.endswith('++') else 'c'}", place / "program"
    path.write_text(ONCE % (source, main))
    subprocess.run([compiler, *TAILS, "-o", output, path], check=True)
    return output


def watched(program: Path, *functions: str, entries: bool = True) -> Traced:
    """A line for each entry (``THREAD > NAME``), and one for each return (``THREAD < NAME RESULT``) of the
    functions."""
    edges = {edge: ", ".join(f"pid$target:a.out:{name}:{edge}" for name in functions) for edge in ("entry", "return")}
    entered = f'{edges["entry"]} {{ printf("%d > %s\\n", tid, probefunc); }}'
    over = f'{edges["return"]} {{ printf("%d < %s %d\\n", tid, probefunc, (long)arg1); }}'
    found = traced(entered * entries + over, program)
    assert not found.refused and not found.errors and found.restored is not False
    return found


def results(found: Traced, function: str) -> list[int]:
    """The results of the calls of a function, in order of their ends."""
    rows = [line.split() for line in found.lines]
    return [int(row[3]) for row in rows if row[1:3] == ["<", function]]


def assert_nested(found: Traced) -> None:
    """Each return is that of the call of its thread that began last."""
    begun: dict[str, list[str]] = {}
    for line in found.lines:
        thread, edge, function, *_ = line.split()
        calls = begun.setdefault(thread, [])
        if edge == ">":
            calls.append(function)
        else:
            assert calls.pop() == function, line
    assert not any(begun.values())


RESULTS = {"one": [31, 71], "two": [200, 401, 701], "both": [31, 401], "shared": [6, 31, 71, 401, 701]}


@pytest.mark.parametrize("compiler", COMPILERS)
def test_calls_that_go_on_in_other_functions_return_their_results(tmp_path: Path, compiler: str) -> None:
    program = build(tmp_path, CHAIN, compiler=compiler)
    assert jumps(program, "first", "middle") and jumps(program, "both", "one") and jumps(program, "two", "shared")
    found = watched(program, "first", "middle", "last", "shared", "one", "two", "both")
    assert_nested(found)
    assert {name: sorted(results(found, name)) for name in ("first", *RESULTS)} == {"first": [15], **RESULTS}


@pytest.mark.parametrize("only", ["one", "both", "two"])
def test_a_single_function_is_followed_through_others_that_have_no_probes(tmp_path: Path, only: str) -> None:
    found = watched(build(tmp_path, CHAIN), only)
    assert_nested(found)
    assert sorted(results(found, only)) == RESULTS[only]


def test_the_offset_is_that_of_the_jump_and_the_stack_that_of_the_function(tmp_path: Path) -> None:
    program = build(tmp_path, CHAIN)
    found = traced(
        "pid$target:a.out:middle:return { @[arg0] = count(); @stacks[ustack(2)] = count(); }"
        'END { printa("%x %@d\\n", @); printa(@stacks); }', program
    )  # fmt: skip
    said = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], capture_output=True, text=True, check=True)
    body = said.stdout.split("<middle>:\n")[1].split("\n\n")[0].splitlines()
    first, jump = (int(next(line for line in body if word in line).split(":")[0], 16) for word in ("\t", "<last>"))
    assert found.lines[0] == f"{jump - first:x} 1"
    assert f"middle+{jump - first:#x}" in found.lines[1]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_calls_left_by_longjmp_do_not_return_with_later_calls_from_the_same_place(
    tmp_path: Path, compiler: str
) -> None:
    found = watched(build(tmp_path, LEFT, compiler=compiler), "first", "last")
    assert results(found, "first") == [n * 2 + 1 for n in range(600) if n % 3 == 0]
    assert results(found, "last") == [n * 2 + 1 if n % 3 == 0 else n + 1 for n in range(600)]


def test_calls_left_by_exceptions_do_not_return(tmp_path: Path) -> None:
    found = watched(build(tmp_path, THROWN, compiler="g++"), "first", "last")
    assert results(found, "first") == [n for n in range(400) if n % 4 and n % 5]
    assert results(found, "last") == [n if n % 4 and n % 5 else 4 * n + 1 for n in range(400)]


def test_conditional_jumps_are_followed_where_they_are_taken(tmp_path: Path) -> None:
    returning = WRITTEN.replace(
        "call leave;", "cmp $5, %rdi; jne 1f; call leave; 1:"
    )  # the analysis cannot rule it out
    assert returning != WRITTEN
    found = watched(build(tmp_path, returning), "first", "last", "begins", "loops")
    assert {name: sorted(results(found, name)) for name in ("first", "last", "begins", "loops")} == {
        "first": [5, 7], "last": [5, 7, 11], "begins": [40, 40], "loops": [40, 40, 40],
    }  # fmt: skip


@pytest.mark.parametrize("compiler", COMPILERS)
def test_functions_that_jump_to_each_other_return_once(tmp_path: Path, compiler: str) -> None:
    """A function that is entered again before its call is over is in a new round of it."""
    found = watched(build(tmp_path, MUTUAL, compiler=compiler), "even", "odd", "from", entries=False)
    four, three = 4 + 3000 + 2 + 1000, -(3 + 2000 + 1)
    many = sum(n if n % 2 == 0 else 1000 * n for n in range(100001))
    assert sorted(results(found, "from")) == [three, four]
    assert sorted(results(found, "even")) == sorted(results(found, "odd")) == [three, four, many]


def test_more_calls_than_are_noted_at_one_stack_pointer_are_counted_as_drops(tmp_path: Path) -> None:
    functions = [f"long f{n}(long n);\n" for n in range(13)]
    functions += [
        f'NOINLINE long f{n}(long n) {{ __asm__ volatile(""); return f{n + 1}(n + 1); }}\n' for n in range(12)
    ]
    source = "".join(functions) + 'NOINLINE long f12(long n) { __asm__ volatile(""); return n * 2; }\n'
    program = build(tmp_path, f'{source}static void one_round(void) {{ printf("%ld\\n", f0(0)); }}')
    found = traced('pid$target:a.out:f[0-9]*:return { printf("%s %d\\n", probefunc, (long)arg1); }', program)
    assert found.lines == [f"f{n} 24" for n in (12, 7, 6, 5, 4, 3, 2, 1, 0)]
    assert found.errors == "dtrace: 4 dynamic variable drops\n"


AWAY = """
static void (*volatile where)(long);
static volatile long last;
NOINLINE void here(long n) { last = n; }
NOINLINE void away(long n) { where(n); }
static void one_round(void) { where = here; away(7); }
"""


def test_a_jump_that_may_lead_anywhere_is_the_end_and_the_listing_says_so(tmp_path: Path) -> None:
    program = build(tmp_path, AWAY)
    assert len(results(watched(program, "away", "here"), "away")) == 1
    (said,) = listed(program, "pid$target:a.out:away:return")[0]["early"]
    assert said.startswith("away ends in a jump to wherever a pointer leads, at +0x")
    assert listed(program, "pid$target:a.out:here:return")[0]["early"] == []


THREADS = """
static volatile long sum;
static void some(void) { sum += first(4) + both(3) + both(4) + shared(5); }
static void *run(void *n) { for (int i = 0; i < 50; i++) some(); return n; }
static void beat(int signal) { some(); (void)signal; }
"""
MANY = """
pthread_t thread[40];
signal(SIGUSR1, beat);
for (int i = 0; i < 40; i++) pthread_create(&thread[i], 0, run, 0);
for (int i = 0; i < 40; i++) pthread_kill(thread[i], SIGUSR1);
for (int i = 0; i < 40; i++) pthread_join(thread[i], 0);
"""


def test_calls_of_many_threads_and_of_signal_handlers_are_nested(tmp_path: Path) -> None:
    """Handlers come at any instruction, also between a jump and the function that it leads to."""
    program = build(tmp_path, CHAIN + THREADS, MANY)
    names = ("first", "both", "shared")
    edges = {edge: ", ".join(f"pid$target:a.out:{name}:{edge}" for name in names) for edge in ("entry", "return")}
    found = traced(
        f"{edges['entry']} {{ self->deep++; @calls[probefunc] = count(); }}"
        f"{edges['return']} {{ self->deep--; @over[probefunc] = count(); @deep[self->deep < 0] = count(); }}"
        'END { printa("calls %s %@d\\n", @calls); printa("over %s %@d\\n", @over); printa("deep %d %@d\\n", @deep); }',
        program,
    )
    assert not found.errors and not found.refused
    numbers = {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in found.lines}
    rounds = numbers["calls first"]
    assert 40 * 50 <= rounds <= 40 * 51  # a signal comes too late for a thread that has ended
    assert numbers["over first"] == rounds
    assert numbers["over both"] == numbers["calls both"] == 2 * rounds
    assert numbers["over shared"] == numbers["calls shared"] == 3 * rounds
    assert "deep 1" not in numbers
