# SPDX-License-Identifier: LGPL-2.1-or-later
"""A day's questions about real programs, asked from end to end, and the answers beside those of strace, gdb, valgrind
and gcov, or what arithmetic makes them. docs/jobs.md has a row for each.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.harness import run_gilk
from tests.places import ROOT
from tests.programs.build import compile_text

Environment = dict[str, str]
Command = Sequence[str | Path]
_PATIENCE = 300
PYTHON = ["/usr/bin/python3", "-S", "-B"]  # -B: it leaves no bytecode for the next one to open

WORK = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define APART __attribute__((noinline, noclone))
#define USED(p) asm volatile("" :: "r"(p) : "memory")
static inline __attribute__((always_inline)) long mixed(long x) { volatile long y = x * 31; return y ^ 7; }
APART int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
APART int save(int n) { USED(n); return 0; }
APART int request(long us, long number)
{
	if (us)
		usleep(us);
	USED(number);
	return getenv("BAD") ? 1 : save(number);
}
APART int work(int n)
{
	long sum = fib(n);
	for (int i = 0; i < 10; i++) {
		if (sum < 0)
			sum += 1000;
		sum += mixed(i) + request(i % 4 == 3 ? 60000 : 0, 100 + i);
	}
	return sum & 1;
}
int main(void) { return work(11) + mixed(3) < 0; }
"""


@pytest.fixture
def told(gilk_on_path: Environment, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def tell(*words: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        return run_gilk(*map(str, words), env={**gilk_on_path, **more}, cwd=tmp_path, timeout=_PATIENCE)

    return tell


@pytest.fixture
def ask(told: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., Any]:
    """A function that runs gilk and returns its answer, parsed as JSON."""

    def answer(*words: str | Path) -> Any:
        done = told(*words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return answer


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("jobs"), "work", WORK, "-O1", "-w")


def strace(*words: str | Path) -> list[str]:
    """The lines of strace's output, without process numbers."""
    with tempfile.NamedTemporaryFile("r") as log:  # a file of its own: the program may write amid its lines
        command = ["strace", "-f", "-qq", "-s", "300", "-o", log.name, *map(str, words)]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_PATIENCE)
        return [re.sub(r"^\d+ +", "", line) for line in log.read().splitlines()]


def gdb(program: Command, *commands: str) -> str:
    words = [word for each in commands for word in ("-ex", each)]
    command = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", *words, "--args", *map(str, program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE).stdout


# Files and system calls.


def test_opened(told: Any) -> None:
    """Which files of its library does python open?"""
    command = [*PYTHON, "-c", "import json"]
    clause = 'syscall::openat:entry { printf("%s\\n", copyinstr(arg1)); }'
    found = told("dtrace", "-q", "-n", clause, "-c", " ".join([*PYTHON, "-c", "'import json'"])).stdout.splitlines()
    lines = strace("-e", "trace=openat", *command)
    expected = [match[1] for line in lines if (match := re.search(r'openat\(\w+, "([^"]+)"', line))]
    here = re.compile(r".*/json(?:/|$)")
    assert Counter(filter(here.match, found)) == Counter(filter(here.match, expected)) != Counter()


def test_failing(ask: Any) -> None:
    """Which system calls fail?"""
    script = "import os\nfor i in range(7):\n try: os.unlink('/nowhere/%d' % i)\n except OSError: pass"
    lines = strace("-e", "trace=unlink", *PYTHON, "-c", script)
    assert len([line for line in lines if "ENOENT" in line]) == 7
    rows = {row["name"]: row for row in ask("syscalls", "--json", "--", *PYTHON, "-c", script)["rows"]}
    assert (rows["unlink"]["calls"], rows["unlink"]["errors"]) == (7, 7)


def test_pipeline(ask: Any) -> None:
    """How often do the programs of a pipeline write?"""
    command = ["sh", "-c", "seq 1 2000 | tr 1 2 | sort | tail -3; /bin/echo done"]
    expected = len([line for line in strace("-e", "trace=write", *command) if line.startswith("write(")])
    report = ask("run", "--json", "--follow", "-i", "syscall:write=count", "--", *command)
    assert report["counts"]["syscall:write:entry"] == expected > 4
    assert not report["partial"]


def test_build(ask: Any, tmp_path: Path) -> None:
    """Which programs does a build start, and how often?"""
    rule = "\tcat Makefile > $@; /bin/echo made $@\n"
    (tmp_path / "Makefile").write_text("all: a b c\na b c:\n" + rule)
    command = ["make", "-B", "-j2", "-C", str(tmp_path)]
    lines = strace("-e", "trace=execve", *command)
    started = [match[1] for line in lines if (match := re.match(r'execve\("([^"]+)".*(?:= 0|<unfinished)', line))]
    expected = Counter(str(Path(path).resolve()) for path in started)
    report = ask("run", "--json", "--follow", "-i", "libc:exit:entry=count", "--", *command)
    found = Counter(str(Path(program["path"]).resolve()) for program in report["programs"])
    assert found == expected and found["/usr/bin/cat"] == 3
    assert not [program for program in report["programs"] if program["slug"]]


# Calls.


def test_allocations(ask: Any) -> None:
    """How much does sqlite3 allocate?"""
    command = ["sqlite3", ":memory:", "create table t(a); insert into t values(1),(2); select * from t"]
    done = subprocess.run(["valgrind", *command], capture_output=True, text=True, timeout=_PATIENCE)
    match = re.search(r"total heap usage: ([\d,]+) allocs, [\d,]+ frees, ([\d,]+) bytes", done.stderr)
    assert match is not None, done.stderr
    expected = [int(each.replace(",", "")) for each in match.groups()]
    totals = ask("mallocs", "--json", "--", *command)["totals"]
    assert [totals["allocations"], totals["allocated"]] == expected


def test_library(ask: Any) -> None:
    """Which functions of a library are called, and how often?"""
    names = ["sqlite3_step", "sqlite3_prepare_v2", "sqlite3_finalize", "sqlite3_column_text", "sqlite3_exec"]
    command = ["sqlite3", ":memory:", "select 1; select 2 union select 3;"]
    inserts = [word for name in names for word in ("-i", f"libsqlite3*:{name}:entry=count")]
    counts = ask("run", "--json", *inserts, "--", *command)["counts"]
    breaks = [word for n, name in enumerate(names, 1) for word in (f"break {name}", f"ignore {n} 1000000")]
    output = gdb(command, "set breakpoint pending on", *breaks, "run", "info breakpoints")
    hits = dict.fromkeys(names, 0)
    for part in re.split(r"^(?=\d+ +breakpoint)", output, flags=re.MULTILINE)[1:]:
        if hit := re.search(r"already hit (\d+) time", part):
            hits[names[int(part.split()[0]) - 1]] = int(hit[1])
    assert {name: counts[f"libsqlite3.so.0.8.6:{name}:entry"] for name in names} == hits
    assert hits["sqlite3_step"] > 0


def test_arguments(told: Any) -> None:
    """What does a program ask of its environment?"""
    clause = 'pid$target:libc:getenv:entry { printf("%s\\n", copyinstr(arg0)); }'
    found = told("dtrace", "-q", "-n", clause, "-c", "ls -d /").stdout.splitlines()
    output = gdb(
        ["ls", "-d", "/"], "set breakpoint pending on", 'dprintf getenv,"asked %s\\n",(char *)$rdi', "run",
    )  # fmt: skip
    expected = re.findall(r"^asked (\w+)$", output, re.MULTILINE)
    assert Counter(line for line in found if line.strip("/")) == Counter(expected) != Counter()


def test_stack(ask: Any, work: Path) -> None:
    """Who calls this function?"""
    [stack] = ask("run", "--json", "-i", "save:entry=stack", "--", work)["stacks"]
    output = gdb([work], "break save", "run", "backtrace")
    expected = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\w+) ", output, re.MULTILINE)
    assert expected == ["save", "request", "work", "main"]
    assert [re.sub(r".*`|\+0x.*", "", frame) for frame in stack["frames"]][:4] == expected
    assert stack["count"] == 10


def test_inlined(ask: Any, work: Path) -> None:
    """How often does an inlined function run?"""
    counts = ask("run", "--json", "-i", "mixed:entry=count", "--", work)["counts"]
    assert sum(counts.values()) == 10 + 1


def test_lines(told: Any, tmp_path: Path) -> None:
    """Which lines ran, in a build that nobody made for that?"""
    program = compile_text(tmp_path, "covered", WORK, "-O0", "-w")
    done = told("run", "-q", "-i", "*:blocks=count", "--coverage", "out.info", "--", program)
    assert done.returncode == 0, done.stderr
    records = re.findall(r"^DA:(\d+),(\d+)$", (tmp_path / "out.info").read_text(), re.MULTILINE)
    found = {int(line): int(count) > 0 for line, count in records}
    other = tmp_path / "gcov"
    other.mkdir()
    (other / "covered.c").write_text(WORK)
    subprocess.run(["gcc", "-O0", "-w", "--coverage", "covered.c", "-o", "covered"], cwd=other, check=True)
    subprocess.run([other / "covered"], cwd=other, check=True)
    data = next(path.name for path in other.glob("*.gcda"))
    subprocess.run(["gcov", data], cwd=other, check=True, capture_output=True)
    rows = re.findall(r"^ *([\d#*]+):\s+(\d+):", (other / "covered.c.gcov").read_text(), re.MULTILINE)
    expected = {int(line): count[0] != "#" for count, line in rows}
    both = found.keys() & expected.keys()
    assert {line: found[line] for line in both} == {line: expected[line] for line in both}
    assert len(both) >= 12 and not all(expected[line] for line in both)


# One call from inside, and two runs beside each other.


def test_tree(ask: Any, work: Path, tmp_path: Path) -> None:
    """What happens in this call?"""
    ask("trace", "--start", "call:work", "--stop", "return:work", "--scope", "work:", "--json", "-o", "t.parquet",
        "--", work)  # fmt: skip
    answer = ask("query", "t.parquet", "--json", "select function, count(*) from calls group by function")
    assert dict(answer["rows"]) == {"work": 1, "fib": 287, "request": 10, "save": 10}


def test_different(told: Any, work: Path) -> None:
    """What does a bad run do differently?"""
    for name, more in (("good", {}), ("bad", {"BAD": "1"})):
        words = ["--start", "call:work", "--stop", "return:work", "--scope", "work:", "-o", f"{name}.parquet"]
        done = told("trace", *words, "--", work, **more)
        assert done.returncode == 0, done.stderr
    done = told("diff", "good.parquet", "bad.parquet", "--json")
    assert done.returncode == 1, done.stderr
    assert {tuple(each["path"]) for each in json.loads(done.stdout)["only_a"]} == {("work", "request", "save")}


def test_slow(ask: Any, work: Path) -> None:
    """Which requests are slow?"""
    answer = ask("slow", "request", "--longer-than", "60ms", "--json", "--", work)
    assert answer["totals"]["calls"] == 10
    assert {103, 107} <= {each["arg1"] for each in answer["records"]}
    assert all(each["took"] >= 60_000_000 for each in answer["records"])


def test_waits(ask: Any, work: Path) -> None:
    """Where does it wait?"""
    naps = [line for line in strace("-e", "trace=clock_nanosleep", work) if line.startswith("clock_nanosleep(")]
    rows = [row for row in ask("offcpu", "--json", "--", work)["rows"] if row["call"] == "clock_nanosleep"]
    assert [(row["name"], row["waits"]) for row in rows] == [("work`request", len(naps))] == [("work`request", 2)]
    assert rows[0]["time"] >= 2 * 60_000_000


def test_server(gilk_on_path: Environment, tmp_path: Path) -> None:
    """How many requests does a server that runs answer, and how long are they?"""
    (tmp_path / "page").write_text("x" * 4321)
    script = (
        "import http.server as h\n"
        "s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler)\n"
        "print(s.server_port, flush=True)\ns.serve_forever()"
    )
    words = ["/usr/bin/python3", "-c", script]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, cwd=tmp_path, text=True, **pipes) as server:  # type: ignore[call-overload]
        try:
            port = int(server.stdout.readline())
            clauses = (
                'BEGIN { printf("ready\\n"); } syscall::accept4:return /(int)arg1 >= 0/ { n++; } '
                "syscall::sendto:entry { @sent = max(arg2); } syscall::shutdown:entry /n == 5/ { exit(0); } "
                'END { printf("%d requests\\n", n); }'
            )
            command = ["gilk", "dtrace", "-q", "-n", clauses, "-p", str(server.pid)]
            pipe = subprocess.PIPE
            with subprocess.Popen(command, env=gilk_on_path, stdout=pipe, stderr=pipe, text=True) as asking:
                try:
                    assert asking.stdout is not None and asking.stdout.readline() == "ready\n"
                    for _ in range(5):
                        with urllib.request.urlopen(f"http://127.0.0.1:{port}/page", timeout=_PATIENCE) as answer:
                            assert len(answer.read()) == 4321
                    output, errors = asking.communicate(timeout=_PATIENCE)
                finally:
                    asking.kill()
            assert output.split()[:2] == ["5", "requests"], errors
            assert output.split()[-1] == "4321"
            assert server.poll() is None
        finally:
            server.kill()


def test_the_table_has_all_of_these() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "jobs.md").read_text(), re.MULTILINE)
    there = [name.removeprefix("test_") for name in globals() if name.startswith("test_")]
    assert sorted(rows) == sorted(name for name in there if name != "the_table_has_all_of_these")
    assert len(rows) >= 15
