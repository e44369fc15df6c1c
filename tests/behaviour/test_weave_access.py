# SPDX-License-Identifier: LGPL-2.1-or-later
"""Accesses of variables: woven aspects see every one that valgrind's lackey sees, once, with its size and place; and
programs compute the same results, also with advice in place of each access."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import gilk
from gilk.errors import UsageError
from tests.behaviour.accessed_program import AccessedVariable, build, kept, made, seen_by_valgrind
from tests.behaviour.advised import COMPILERS
from tests.behaviour.harness import differences, leftovers, run_gilk
from tests.behaviour.waiting import wait_for
from tests.seldom import seldom

LEVELS = ("-O0", "-O1", "-O2", "-O3")
#: Each level with one of the compilers first, then with the other.
PAIRS = [(level, COMPILERS[(n + turn) % 2]) for turn in (0, 1) for n, level in enumerate(LEVELS)]
MANY = int(os.environ.get("GILK_ACCESS_SEEDS", "40"))


def declared(one: AccessedVariable) -> str:
    return one.type if "[" not in one.type else "struct six"  # no member of it needs to be known


def observers(one: AccessedVariable) -> str:
    value = "&& value(v)" if one.is_whole else ""
    return "".join(
        f"{kind}({declared(one)} {one.name}) {value} && size(s) && offset(o) then {when} {{ add({table}, s, o, 1); }};\n"
        for kind, when, table in (
            ("readGlobal", "before", f"r_{one.name}"), ("writeGlobal", "after", f"w_{one.name}"),
        )
    )  # fmt: skip


def replacing(one: AccessedVariable) -> str:
    return (
        f"readGlobal({one.type} {one.name}) then inplace {{ return proceed(); }};\n"
        f"writeGlobal({one.type} {one.name}) && value(v) then inplace {{ proceed(v); }};\n"
    )


def tables(variables: tuple[AccessedVariable, ...]) -> str:
    return "".join(f"table {way}_{one.name} key(unsigned long, long) count;\n" for one in variables for way in "rw")


def weave(program: Path, text: str, place: Path) -> tuple[list[str], dict[str, Counter[tuple[str, int, int]]]]:
    """Weave the aspects into the program. Returns the lines that it prints, and its accesses by the tables. Raises
    UsageError."""
    file = place / "accesses.aspect"
    file.write_text(text)
    done = run_gilk("weave", file, "--json", "-c", program, timeout=250)
    if done.returncode:
        assert '"error"' in done.stdout, (done.returncode, done.stdout, done.stderr)
        error = json.loads(done.stdout.splitlines()[-1])["error"]
        raise UsageError(error["slug"], error["message"])
    begun, *lines, last = done.stdout.splitlines()
    assert "woven" in json.loads(begun)
    summary = json.loads(last)
    assert all(one["restored"] is not False and not one["drops"] for one in summary["processes"])
    found: dict[str, Counter[tuple[str, int, int]]] = {}
    for name, table in summary["tables"].items():
        way, _, variable = name.partition("_")
        counts = found.setdefault(variable, Counter())
        for row in table["rows"]:
            size, offset = map(int, row["key"].split(", "))
            counts[way, size, offset] = row["value"]
    return lines, found


def differing(seed: int, compiler: str, options: tuple[str, ...], place: Path) -> tuple[list[str], ...]:
    """All differences: in the counts, in the program's output, and in its output with advice in place."""
    program = made(seed)
    path = build(place, program, compiler, *options)
    variables = kept(path, program.variables)
    expected = seen_by_valgrind(path, place, variables)
    alone = printed(path)
    observed = weave(path, tables(variables) + "".join(map(observers, variables)), place)
    counts = [
        f"{name}: lackey {dict(expected[name])}, woven {dict(observed[1].get(name, Counter()))}"
        for name in expected
        if expected[name] != observed[1].get(name, Counter())
    ]
    lines = [line for line in lines_without_addresses(observed[0]) if line not in alone]
    replaced = weave_in_place(path, variables, place)
    return counts, lines, [line for line in lines_without_addresses(replaced) if line not in alone]


def printed(path: Path) -> list[str]:
    done = subprocess.run([path], check=True, capture_output=True, text=True)
    return lines_without_addresses(done.stdout.splitlines())


def lines_without_addresses(lines: list[str]) -> list[str]:
    return [line.split(" ", 1)[1] if number == 0 else line for number, line in enumerate(lines)]


def weave_in_place(path: Path, variables: tuple[AccessedVariable, ...], place: Path) -> list[str]:
    """The program's output with advice in place of every access of the variables that are only accessed whole."""
    left = [one for one in variables if one.is_whole]
    while True:
        try:
            return weave(path, "".join(map(replacing, left)), place)[0]
        except UsageError as error:
            if error.slug != "split-access":
                raise
            (line,) = re.findall(r"line (\d+)", error.message)[:1]
            del left[(int(line) - 1) // 2]


@pytest.mark.parametrize(("level", "compiler"), seldom(PAIRS, 1))
def test_advice_sees_every_access_that_lackey_sees(compiler: str, level: str, tmp_path: Path) -> None:
    seed = LEVELS.index(level) + 10 * COMPILERS.index(compiler)
    assert differing(seed, compiler, (level,), tmp_path) == ([], [], [])


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(100, 100 + MANY))
def test_every_access_of_many_programs_is_seen(seed: int, tmp_path: Path) -> None:
    chosen = random.Random(seed)
    options = (chosen.choice(LEVELS), chosen.choice(("-fPIE", "-no-pie", "-mavx2", "-fno-inline", "-Os")))
    made_by = chosen.choice(COMPILERS)
    pie = ("-pie",) if "-no-pie" not in options else ("-fno-pie",)
    assert differing(seed, made_by, (*options, *pie), tmp_path) == ([], [], []), (made_by, options)


@pytest.mark.stress
def test_the_comparison_detects_accesses_of_a_function_that_are_missed(tmp_path: Path) -> None:
    """The comparison with lackey notices that the instructions of one function are left out."""
    program = made(0)
    path = build(tmp_path, program, "gcc", "-O1")
    variables = kept(path, program.variables)
    expected = seen_by_valgrind(path, tmp_path, variables)
    text = tables(variables) + "".join(map(observers, variables)).replace(" then ", " && in(f1, f2, f3, main) then ")
    found = weave(path, text, tmp_path)[1]
    assert any(found.get(name, Counter()) != expected[name] for name in expected)


THREADS = """\
#include <pthread.h>
#include <stdio.h>
#define NOINLINE __attribute__((noinline, noclone))
static __thread long mine; long shared; static int stop;
NOINLINE void store(long n) { shared = n; }
NOINLINE long load(void) { return shared; }
NOINLINE int stopped(void) { return stop; }
static void *work(void *argument)
{
	long wrong = 0, n;
	for (n = 0; n < 20000 || !stopped(); n++) { store(5); wrong += load() != 5; mine++; }
	(void)argument;
	return (void *)wrong;
}
int main(void)
{
	pthread_t thread[4];
	void *one;
	long n, wrong = 0;
	char line[16];
	shared = 5;
	for (n = 0; n < 4; n++) pthread_create(thread + n, 0, work, 0);
	puts("ready"); fflush(stdout);
	if (!fgets(line, sizeof line, stdin)) return 2;
	stop = 1;
	for (n = 0; n < 4; n++) { pthread_join(thread[n], &one); wrong += (long)one; }
	printf("%ld\\n", wrong);
	return 0;
}
"""
HOT = """\
writeGlobal(long shared) && value(v) then inplace { proceed(v); };
readGlobal(long shared) && value(v) then inplace { long r = proceed(); return r == v ? r : v; };
perthread seq(writeGlobal(long shared) && value(v); readGlobal(long shared) && value(w) then after { if (v != w) report("%ld", w); });
"""


def test_aspects_come_and_go_while_threads_access(tmp_path: Path) -> None:
    source, program = tmp_path / "threads.c", tmp_path / "threads"
    source.write_text(THREADS)
    subprocess.run(["gcc", "-O2", "-pthread", "-o", program, source], check=True)
    file = tmp_path / "hot.aspect"
    file.write_text(HOT)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdin and running.stdout and running.stdout.readline() == "ready\n"
        for _ in range(2):
            with gilk.attach(running.pid) as target, gilk.weave(file, target) as woven:
                assert wait_for(lambda woven=woven: woven.counts()[2].ended > 1000)  # type: ignore[misc]
        with gilk.attach(running.pid):
            assert not differences(running.pid) and not leftovers(running.pid)
        running.stdin.write("\n")
        running.stdin.close()
        assert running.stdout.readline() == "0\n"
    assert running.returncode == 0


LIBRARY = "int counter = 3; int step(int n) { counter += n; return counter; }\n"
USER = """\
#include <stdio.h>
extern int counter; int step(int n);
__attribute__((noinline)) int look(void) { return counter; }
int main(void)
{
	int first = step(4), second, third;

	counter = 9;
	second = look();
	third = step(1);
	printf("%d %d %d\\n", first, second, third);
	return 0;
}
"""


@pytest.mark.parametrize("options", [("-fPIC", "-pie"), ("-fno-pic", "-no-pie")], ids=["got", "copied"])
def test_accesses_of_a_librarys_variable_are_seen_in_all_images(options: tuple[str, ...], tmp_path: Path) -> None:
    """Code reaches the variable by tables of addresses, or in the program's own copy if it has one."""
    for name, text in (("library.c", LIBRARY), ("user.c", USER)):
        (tmp_path / name).write_text(text)
    library, program = tmp_path / "libcounting.so", tmp_path / "user"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, tmp_path / "library.c"], check=True)
    link = [library, f"-Wl,-rpath,{tmp_path}"]
    subprocess.run(["gcc", "-O2", *options, "-o", program, tmp_path / "user.c", *link], check=True)
    text = (
        'writeGlobal(int counter) && value(v) && old(o) then after { report("%s %d %d", jp.function, o, v); };\n'
        'readGlobal(int counter) && value(v) then { report("%s %d", jp.function, v); };\n'
    )
    lines, _ = weave(program, text, tmp_path)
    reports = [json.loads(line)["report"]["text"] for line in lines if line.startswith("{")]
    assert "7 9 10" in lines
    assert [one for one in reports if one.count(" ") == 2] == ["step 3 7", "main 7 9", "step 9 10"]
    assert {one.split()[0] for one in reports} == {"step", "main", "look"}
