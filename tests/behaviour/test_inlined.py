# SPDX-License-Identifier: LGPL-2.1-or-later
"""An inlined function is counted at its copies, or gilk says where the copies are and why they are not counted.

The oracles are the programs' arithmetic, and gdb, which sets a breakpoint in each copy.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import gilk
from gilk.errors import UsageError
from tests.behaviour.harness import run, run_gilk, wait_for
from tests.programs.build import compile_text
from tests.seldom import seldom

SOURCE = r"""
#include <stdio.h>
#define IN static inline __attribute__((always_inline))
IN int gone(int x) { volatile int y = x * 3; return y + 1; }
static int both(int x) { volatile int y = x; return y * 7; }
int (*pointer)(int) = both;
__attribute__((noinline)) int work(int x) { return gone(x) + gone(x + 1); }
int main(int argc, char **argv)
{
	int sum = 0;
	(void)argv;
	for (int i = 0; i < 10; i++)
		sum += work(i) + both(i) + gone(argc);
	return printf("%d\n", sum + pointer(sum)) < 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("program"), "inlining", SOURCE, "-O2")


@pytest.mark.parametrize(
    "words",
    [("run", "-i", "gone:return=stamp"), ("run", "-i", "gone=@path"), ("trace", "--start", "call:gone")],
    ids=" ".join,
)
def test_the_hint_of_no_such_function_says_where_it_is_inlined(
    words: tuple[str, ...], program: Path, tmp_path: Path
) -> None:
    done = run_gilk(*words, "-o", tmp_path / "x.parquet", "--json", "--", program)
    error = json.loads(done.stdout.splitlines()[-1])["error"]
    assert error["slug"] == "no-such-function"
    assert error["hint"].startswith("it is inlined in 3 places (")
    assert "work:+0x" in error["hint"] and "main:+0x" in error["hint"]


def told_by_readelf(program: Path) -> set[str]:
    """The functions that the debug information calls inlined and of which the program has no symbol."""
    dumped = subprocess.run(["readelf", "--debug-dump=info", program], capture_output=True, text=True, check=True)
    entries = re.split(r"\n <\d+><[0-9a-f]+>: ", dumped.stdout)
    inlined = [each for each in entries if "DW_TAG_subprogram" in each and re.search(r"DW_AT_inline +: [13]\b", each)]
    named = [re.search(r"DW_AT_name +: (?:\(.*\): )?(\w+)", each)[1] for each in inlined]
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    return {name for name in named if not re.search(rf" [tT] {name}$", symbols, re.MULTILINE)}


def test_functions_that_are_inlined_everywhere_are_named(program: Path, tmp_path: Path) -> None:
    assert told_by_readelf(program) == {"gone"}
    done = run_gilk("trace", "--scope", "inlining:", "-o", tmp_path / "t.parquet", "--", program)
    told = f"1 function of inlining is inlined at all calls, and so part of the callers here: gone; gilk scan --list {program} names them"
    assert f"note: {told}\n" in done.stderr
    assert "inlined at all calls, in inlining: gone\n" in run_gilk("scan", "--list", program).stdout
    assert json.loads(run_gilk("scan", "--list", "--json", program).stdout)["inlined"] == {"inlining": ["gone"]}


@pytest.mark.parametrize(("glob", "hint"), [("gone", "it is inlined in"), ("go[mn]e", "inlined at all calls: gone")])
def test_functions_without_code_of_their_own_are_told_where_none_is_found(
    glob: str, hint: str, program: Path, tmp_path: Path
) -> None:
    file = tmp_path / "t.parquet"
    told = run_gilk("trace", "-o", file, "--scope", f"inlining:{glob}", "--", program)
    assert told.returncode == 2 and f"inlining:{glob}: {hint}" in told.stderr and not file.exists()
    told = run_gilk("run", "-i", f"inlining:{glob}:return=count", "--", program)
    assert told.returncode == 2 and hint in told.stderr


def test_globs_of_a_scope_without_functions_are_named(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    words = [word for glob in ("inlining:main", "inlining:gone", "libnone:") for word in ("--scope", glob)]
    told = run_gilk("trace", "-o", file, *words, "--", program)
    assert told.returncode == 0
    assert "note: no function was in the scope inlining:gone, libnone:*\n" in told.stderr


def test_names_like_those_of_inlined_functions_are_suggested(program: Path) -> None:
    """printf() has a name in debug information, too, and is not inlined."""
    for typed, near in (("gnoe", "gone"), ("printff", "")):
        error = json.loads(run_gilk("run", "-i", f"{typed}:entry=count", "--json", "--", program).stdout)["error"]
        named = f"near names of inlined functions: {near}"
        assert (named in error["hint"]) is bool(near), error


def test_slow_says_where_a_function_without_calls_is_inlined(program: Path) -> None:
    done = run_gilk("slow", "gone", "--longer-than", "1us", "--json", "--", program)
    error = json.loads(done.stdout.splitlines()[-1])["error"]
    assert error["slug"] == "no-such-function"
    assert error["hint"].startswith("gone is inlined in 3 places (")


def test_dtrace_says_where_a_function_without_probes_is_inlined(program: Path) -> None:
    done = run_gilk("dtrace", "-n", "pid$target:inlining:gone:entry", "-c", program)
    assert done.returncode == 1
    assert "does not match any probes: gone is inlined in 3 places (" in done.stderr
    done = run_gilk("dtrace", "-n", "pid$target:inlining:go?e:entry { }", "-c", program)
    assert "does not match any probes: inlined at all calls: gone\n" in done.stderr


def test_without_debug_information_the_hint_says_that_inlining_is_unknown(tmp_path: Path) -> None:
    done = run_gilk("run", "-i", "gone:entry=count", "--", compile_text(tmp_path, "inlining", SOURCE, "-O2", "-g0"))
    assert "no such function" not in done.stderr and "(no-such-function)" in done.stderr
    assert "it may be inlined: there is no debug information to tell" in done.stderr


def test_calls_of_an_inlined_function_are_counted_at_its_copies(program: Path) -> None:
    done = run(["gone:entry=count", "both:entry=count", "work:entry=count"], [program])
    sums = summed(done.report["counts"])
    assert sums == {"gone": 30, "both": 11, "work": 10}
    assert done.report["counts"]["inlining:both:entry"] == 1
    assert done.report["refused_points"] == done.report["inlined"] == []
    assert done.report["restored"] is True or done.report["restored"] is None
    text = run_gilk("run", "-i", "gone:entry=count", "-i", "both:entry=count", "--", program).stderr
    assert re.search(r"^ +30  inlining:gone:entry, inlined in 3 places$", text, re.MULTILINE), text
    assert re.search(r"^ +11  inlining:both:entry, also inlined in 1 place$", text, re.MULTILINE), text
    verbose = run_gilk("run", "-v", "-i", "gone:entry=count", "--", program).stderr
    assert (
        len(re.findall(r"^ +10  inlining:gone:entry \(inlined at (?:main|work):\+0x\w+\)$", verbose, re.MULTILINE)) == 3
    )


def summed(counts: dict[str, int]) -> dict[str, int]:
    """The sums of the counts by function."""
    found: dict[str, int] = {}
    for point, count in counts.items():
        name = point.split(":")[1]
        found[name] = found.get(name, 0) + count
    return found


def test_inlined_calls_are_as_many_as_gdb_counts(tmp_path: Path) -> None:
    """This holds if no code is moved: gdb 13 puts its breakpoints at the lowest of the function's instructions,
    which may run once for many calls."""
    program = compile_text(tmp_path, "inlining", SOURCE, "-Og")
    commands = ["set breakpoint pending on"]
    for number, name in enumerate(("gone", "both"), 1):
        commands += [f"break {name}", f"ignore {number} 1000000"]
    words = [word for each in [*commands, "run", "info breakpoints"] for word in ("-ex", each)]
    told = subprocess.run(["gdb", "-nx", "-batch", *words, str(program)], capture_output=True, text=True, timeout=120)
    hits = [int(each) for each in re.findall(r"breakpoint already hit (\d+) times", told.stdout)]
    counts = run(["gone:entry=count", "both:entry=count"], [program]).report["counts"]
    assert hits == list(summed(counts).values()) == [30, 11], told.stdout


def test_stamps_and_stacks_are_recorded_at_inlined_copies(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "stamps.parquet"
    words = ("run", "--json", "-i", "gone:entry=stamp", "-i", "both:entry=stack", "-o", file, "--", program)
    report = json.loads(run_gilk(*words).stdout.splitlines()[-1])
    assert report["records"] == 30
    asked = run_gilk("query", file, "select distinct function from samples where kind = 'stamp'")
    assert asked.stdout.splitlines() == ["function", "gone"], asked.stderr
    assert sum(each["count"] for each in report["stacks"]) == 11


def test_arguments_of_calls_are_taken_there_too(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "args.parquet"
    report = reported("-i", "both:entry=args", "-o", file, "--", program)
    assert (report["points"]["spliced"], report["inlined"], report["refused_points"]) == (2, [], [])
    arguments = list(map(int, rows_of(file, "select arg0 from samples order by time")))
    assert arguments == [*range(10), sum(i * 3 + 1 + (i + 1) * 3 + 1 + i * 7 + 4 for i in range(10))]
    assert rows_of(file, "select 'n' || count(arg1) from samples where point like '%inlined%'") == ["n0"]


def test_arguments_that_are_lost_are_named(program: Path, tmp_path: Path) -> None:
    """gcc does not keep `argc` in main, of which the last `gone` is called."""
    file = tmp_path / "args.parquet"
    report = reported("-i", "gone:entry=args", "-o", file, "--", program)
    [lost] = report["refused_points"]
    assert re.fullmatch(r"inlining:gone:entry \(inlined at main:\+0x\w+\), argument x", lost["point"])
    assert (lost["reason"], report["points"]["refused"]) == ("argument-lost", 0)
    assert rows_of(file, "select count(*) || ' ' || count(arg0) from samples") == ["30 20"]
    text = run_gilk("run", "-i", "gone:entry=args", "--", program).stderr
    assert re.search(
        r"^  inlining:gone:entry \(inlined at main:\+0x\w+\), argument x: argument-lost$", text, re.MULTILINE
    )


def test_calls_are_timed_there_too(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "timed.parquet"
    report = reported("-i", "gone:entry=time", "-i", "both:entry=time", "-o", file, "--", program)
    assert (called(report), report["refused_points"], report["inlined"]) == ({"gone": 30, "both": 11}, [], [])
    assert report["records"] == 2 * (30 + 11) and report["notes"] == []
    places = {place for place in rows_of(file, "select distinct point from samples") if "inlined at work" in place}
    assert {place.split(" ")[0] for place in places} == {"inlining:gone:entry", "inlining:gone:return"}
    slow = reported("-i", "both:entry=time", "--longer-than", "1ns", "--", program)
    assert called(slow) == {"both longer than 1ns": 11}, slow


def reported(*words: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run_gilk("run", "--json", *words).stdout.splitlines()[-1])
    return found


def rows_of(file: Path, query: str) -> list[str]:
    return run_gilk("query", file, query).stdout.splitlines()[1:]


def called(report: dict[str, Any]) -> dict[str, int]:
    """How many calls were timed, by function."""
    return {name: each["count"] for name, each in report["latency"].items()}


ARGUED = r"""
#include <stdio.h>
#define IN static inline __attribute__((always_inline))
#define APART __attribute__((noinline))
enum colour { RED, GREEN = 7 };
static long log[4000], *next = log, table[8];
IN long many(int a, double d, unsigned char b, short c, const long *p, enum colour e, unsigned long f, int beyond)
{
	long *to = __atomic_fetch_add(&next, 6 * sizeof(long), __ATOMIC_RELAXED);
	to[0] = (unsigned)a, to[1] = b, to[2] = (unsigned short)c, to[3] = (long)p, to[4] = e, to[5] = f;
	return a + (long)d + b + c + *p + e + beyond;
}
APART long one(int a, long *p) { return many(a, 1.5, a + 1, -a, p, GREEN, ~0ul, 3); }
APART long two(long n) { long s = 0; for (int i = 0; i < 5; i++) s += many(i - 2, i, 200, n, &table[i], RED, n << 40, i); return s; }
APART long three(int *x, long y) { long s = many(*x, 0, *x, *x, &table[2], GREEN, y * 3, 1); return s + many(-1, s, y, y, &y, RED, s, 0); }
int main(void)
{
	long s = 0;
	for (int i = 0; i < 9; i++)
		s += one(i, &table[i & 7]) + two(i) + three(&i, s);
	for (long *at = log; at < next; at += 6)
		printf("%lu %lu %lu %lu %lu %lu\n", at[0], at[1], at[2], at[3], at[4], at[5]);
	return s == 1;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize(
    "level", seldom(("-Og", "-O2", "-O0", "-O1", "-Os", "-O2 -gdwarf-4", "-O1 -fno-omit-frame-pointer"), 2)
)
def test_arguments_are_those_that_the_program_writes_down(compiler: str, level: str, tmp_path: Path) -> None:
    (tmp_path / "argued.c").write_text(ARGUED)
    subprocess.run([compiler, "-g", *level.split(), "argued.c", "-o", "argued"], cwd=tmp_path, check=True)
    file = tmp_path / "args.parquet"
    done = run_gilk("run", "--json", "-i", "many:entry=args", "-o", file, "--", tmp_path / "argued")
    *written, last = done.stdout.splitlines()
    report = json.loads(last)
    refused = {each["point"]: each["reason"] for each in report["refused_points"]}
    assert any(each.endswith("argument d") for each in refused), "no register for integers would have it"
    if any("argument" not in point for point in refused):
        assert compiler == "clang"
        return
    columns = ", ".join(f"coalesce(cast(arg{n} as varchar), '?') as a{n}" for n in range(6))
    taken = rows_of(file, f"select {columns} from samples order by time")
    assert len(taken) == len(written) == 9 * (1 + 5 + 2)
    known = 0
    for mine, theirs in zip(taken, written, strict=True):
        pairs = list(zip(mine.split(), theirs.split(), strict=True))
        assert all(one in ("?", other) for one, other in pairs), (mine, theirs)
        known += sum(one != "?" for one, _ in pairs)
    assert known >= len(written), "most are known"


LASTING = r"""
#define APART __attribute__((noinline))
#define IN static inline __attribute__((always_inline))
#define USED(n) asm volatile("" :: "r"(n) : "memory")
APART void within(int n) { USED(n); }
APART void around(int n) { USED(n); }
IN int early(int n) { within(n); if (n & 1) return n; if (n & 2) { within(n); return -n; } within(n + 1); return 0; }
IN int looping(int n) { int s = 0; for (int i = 0; i < n % 4; i++) { within(i); s += i; } return s; }
IN int deep(int n) { int s = early(n); within(n); s += looping(n); return s + (n & 4 ? early(n) : 0); }
APART int user(int n)
{
	int s = 0;
	around(n);
	for (int i = 0; i < 3; i++) { s += deep(n + i); around(i); }
	if (n > 5) { s += early(n); around(s); return s; }
	s -= deep(s & 7);
	around(s);
	return looping(s & 7);
}
int main(void) { int s = 0; for (int i = 0; i < 20; i++) s += user(i); USED(s); return 0; }
"""


@pytest.mark.parametrize("level", seldom(["-O2", "-Og", "-O1", "-O3", "-Os"], 2))
def test_a_call_lasts_from_its_first_to_its_last_call_of_others(level: str, tmp_path: Path) -> None:
    """Calls of `within` come from inlined functions only, those of `around` from outside of them."""
    program = compile_text(tmp_path, "lasting", LASTING, level)
    file = tmp_path / "lasting.parquet"
    wanted = ["deep:entry=time", "early:entry=time", "looping:entry=time", "within:entry=stamp", "around:entry=stamp"]
    report = reported(*(word for each in wanted for word in ("-i", each)), "-o", file, "--", program)
    under_way, inside, outside = 0, 0, 0
    for row in rows_of(file, "select function || ' ' || kind as what from samples order by time"):
        function, kind = row.split()
        under_way += {"time-entry": 1, "time-return": -1}.get(kind, 0)
        assert under_way in (0, 1, 2), "`deep` contains the others"
        inside += function == "within"
        outside += function == "around"
        assert function != "around" or not under_way
        assert function != "within" or under_way or report["refused_points"]
    assert under_way == 0 < inside and outside == 20 * 4 + 20
    assert {each["reason"] for each in report["refused_points"]} <= {"inlined-exit", "inlined-copies", "inlined-loop"}
    assert called(report)
    if not report["refused_points"]:
        assert called(report)["deep"] == 20 * 3 + 6


def test_a_condition_on_arguments_is_refused_at_inlined_copies(program: Path) -> None:
    done = run(["both:entry/arg0 >= 0/=count"], [program])
    [refused] = done.report["refused_points"]
    assert refused["reason"] == "inlined-call"
    assert refused["point"].startswith("inlining:both:entry (inlined at main:+0x")
    assert sum(done.report["counts"].values()) == 1


def test_an_inlined_copy_that_a_report_names_can_be_instrumented(program: Path) -> None:
    [inlined] = run(["both:return=stamp"], [program]).report["inlined"]
    counted = run([f"{inlined['at'][0]}=count"], [program])
    assert list(counted.report["counts"].values()) == [10]


MODEL = r"""
#include <stdio.h>
static long calls[4], rest;
#define COUNT(n) (*(volatile long *)&calls[n] += 1)
#define IN static inline __attribute__((always_inline))
IN int leaf(int x) { COUNT(0); return x * 3 + 1; }
static int maybe(int x) { COUNT(1); if (x & 1) return leaf(x); return x / 3; }
IN int looped(int n)
{
	int sum = 0;
	COUNT(2);
	for (int i = 0; i < n; i++)
		sum += leaf(i);
	return sum;
}
IN int rounds(int n) { do { rest++; n -= leaf(n) & 3 ? 1 : 2; } while (n > 0); return n; }
IN int nested(int x)
{
	COUNT(3);
	return looped(x & 7) + maybe(x);
}
__attribute__((noinline)) int one(int x) { return nested(x) + nested(x + 1); }
__attribute__((noinline)) int two(int x) { int s = 0; for (int i = 0; i < 16; i++) s += maybe(i + x); return s; }
__attribute__((noinline)) int three(int x) { if (x > 3) return nested(x) * 2; return looped(x); }
__attribute__((noinline)) int four(int x) { for (int i = 0; i < 4; i++) x += leaf(i); return x + rounds(x & 15); }
int (*volatile pointer)(int) = maybe;
int main(void)
{
	int sum = 0;
	for (int i = 0; i < 50; i++)
		sum += one(i) + two(i) + three(i & 7) + four(i) + pointer(i);
	fprintf(stderr, "%d\n", sum & 1);
	printf("[%ld, %ld, %ld, %ld]\n", calls[0], calls[1], calls[2], calls[3]);
}
"""
NAMES = ("leaf", "maybe", "looped", "nested")
LEVELS = ("-O2", "-O3 -flto", "-Os", "-Og", "-O3 -funroll-loops", "-O1", "-O2 -gdwarf-4")
#: The compilers take turns, so that the first few rows are of both.
ALTERNATELY = [(level, compiler) for turn in (0, 1) for n, level in enumerate(LEVELS)
               for compiler in [("gcc", "clang")[(n + turn) % 2]]]  # fmt: skip


@pytest.mark.parametrize(("level", "compiler"), seldom(ALTERNATELY, 3))
def test_counts_of_inlined_copies_add_up_to_the_programs_own_or_places_are_refused(
    compiler: str, level: str, tmp_path: Path
) -> None:
    """Compilers split functions, copy them, and move their instructions."""
    (tmp_path / "model.c").write_text(MODEL)
    subprocess.run([compiler, "-g", *level.split(), "model.c", "-o", "model"], cwd=tmp_path, check=True)
    done = run([f"{name}:entry=count" for name in NAMES], [tmp_path / "model"])
    counted = summed(done.report["counts"])
    refused = {each["point"].split(":")[1] for each in done.report["refused_points"]}
    for name, calls in zip(NAMES, json.loads(done.stdout), strict=True):
        found = counted.get(name, 0)
        assert found <= calls if name in refused else found == calls, (name, found, calls)
    assert len(refused) < len(NAMES)
    timed = run([f"{name}:entry=time" for name in NAMES], [tmp_path / "model"])
    refused = {each["point"].split(":")[1] for each in timed.report["refused_points"]}
    assert timed.report["notes"] == [], "each call that has begun has ended"
    for name, calls in zip(NAMES, json.loads(done.stdout), strict=True):
        found = called(timed.report).get(name, 0)
        assert found <= counted.get(name, 0) if name in refused else found == calls, (name, found, calls)
    assert len(refused) < len(NAMES)


@pytest.mark.parametrize("level", ["-O1", "-O2", "-Os"])
def test_rounds_of_a_loop_at_an_inlined_copy_are_not_counted_as_calls(level: str, tmp_path: Path) -> None:
    """There is one call of nine rounds. With -O2 there is padding before the loop, where the call begins."""
    program = compile_text(tmp_path, "rounds", r"""
volatile int n;
static inline __attribute__((always_inline)) void rounds(void) { do { n--; } while (n > 0); }
int main(void) { n = 9; rounds(); return n; }
""", level)  # fmt: skip
    report = run(["rounds:entry=count"], [program]).report
    if report["refused_points"]:
        assert [each["reason"] for each in report["refused_points"]] == ["inlined-loop"] and not report["counts"]
    else:
        assert list(report["counts"].values()) == [1]


def test_a_function_name_includes_its_compiler_made_clones(tmp_path: Path) -> None:
    program = compile_text(tmp_path, "clones", r"""
volatile int sink;
static __attribute__((noinline)) int scaled(int x, int by) { for (int i = 0; i < x; i++) sink += by; return sink; }
int main(int argc, char **argv) { (void)argv; scaled(argc, 3); scaled(argc + 1, 3); return scaled(argc + 2, 3) < 0; }
""", "-O3")  # fmt: skip
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    assert re.search(r" t scaled\.(constprop|isra)", symbols), symbols
    counts = run(["scaled:entry=count"], [program]).report["counts"]
    [(point, count)] = counts.items()
    assert (count, point.startswith("clones:scaled:entry (as scaled.")) == (3, True)
    file = tmp_path / "args.parquet"
    report = reported("-i", "scaled:entry=args", "-i", "scaled:entry=time", "-o", file, "--", program)
    rows = rows_of(file, "select arg0 || ' ' || coalesce(arg1, 3) from samples where kind = 'args' order by time")
    assert (rows, called(report)) == (["1 3", "2 3", "3 3"], {"scaled": 3})


def test_a_pattern_does_not_include_inlined_copies(program: Path) -> None:
    report = run(["b*:entry=count"], [program]).report
    assert report["inlined"] == [] and report["counts"] == {"inlining:both:entry": 1}


def test_the_api_reports_inlined_functions_too(program: Path) -> None:
    with gilk.launch([str(program)]) as target, pytest.raises(UsageError, match="no function 'gone'") as caught:
        target.function("gone")
    assert "inlined in 3 places" in caught.value.hint


def test_a_session_inserts_and_removes_probes_at_inlined_copies(program: Path) -> None:
    with gilk.launch([str(program)]) as target, target.session() as session:
        probes = session.insert("both:entry", gilk.count)
        assert [probe.refusal for probe in probes] == [None, None]
        session.remove(probes[1:])
        target.resume()
        wait_for(lambda: target.wait() is not None)
        assert list(session.counts().values()) == [1, 0]
