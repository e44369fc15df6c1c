# SPDX-License-Identifier: LGPL-2.1-or-later
"""`gilk trace --follow`: the calls of every program of a tree of processes, each from its first instruction, in one file."""

from __future__ import annotations

import collections
import json
import os
import re
import shlex
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.harness import ENVIRONMENT, children, differences, leftovers, run_gilk, wait_for
from tests.behaviour.test_run_follow import MAKEFILE, SERVER, comm, executed, tracer
from tests.programs.build import build, compile_text


def traced(directory: Path, *words: str | Path, status: int = 0) -> dict[str, Any]:
    """Run a trace into `t.parquet`. Returns its report."""
    done = run_gilk("trace", "--follow", "--all", "--json", "-o", directory / "t.parquet", *words, cwd=directory)
    assert done.returncode == status, done.stderr
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def rows(directory: Path, sql: str) -> list[dict[str, Any]]:
    done = run_gilk("query", "--json", directory / "t.parquet", sql)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


def calls_of(directory: Path, function: str) -> collections.Counter[int]:
    """The number of entries into a function, by process."""
    where = f"function = '{function}' and kind in ('time-entry', 'time-head')"
    found = rows(directory, f"select pid, count(*) as n from samples where {where} group by pid")
    return collections.Counter({row["pid"]: row["n"] for row in found})


@pytest.mark.parametrize(("name", "hits", "programs", "processes"), [
    ("exec", 500, 6, 1),  # executes itself, the first time from another thread than the first
    pytest.param("vfork", 15, 6, 1, marks=pytest.mark.stress),  # children that share their parent's memory until they execute
    ("fork", 550, 1, 6),  # children that execute nothing
])  # fmt: skip
def test_no_call_of_a_followed_program_is_lost(
    tmp_path: Path, name: str, hits: int, programs: int, processes: int
) -> None:
    """The programs check their sums themselves, and tell by their status."""
    report = traced(tmp_path, "--scope", f"{name}:", "--", build(name), "5")
    assert report["restored"] is True and not report["partial"] and report["drops"] == 0, report["notes"]
    assert len(report["programs"]) == programs
    assert calls_of(tmp_path, "hot").total() == hits and len(calls_of(tmp_path, "hot")) == processes
    assert report["trace"]["states"]["cut"] == report["trace"]["states"]["open"] == 0


def test_the_programs_in_the_trace_are_those_that_strace_sees(tmp_path: Path) -> None:
    """The process that executes a program enters the start of its code exactly once."""
    (tmp_path / "Makefile").write_text(MAKEFILE)
    report = traced(tmp_path, "--scope", "libc.so.6:__libc_start_main*", "--", "make", "-j2")
    assert not report["partial"] and report["restored"] is True, report["notes"]
    programs = collections.Counter(one["path"] for one in report["programs"])
    assert programs == executed(tmp_path, "make", "-j2")
    assert calls_of(tmp_path, "__libc_start_main") == collections.Counter(one["pid"] for one in report["programs"])
    marks = rows(tmp_path, "select pid, point from samples where kind = 'program' and point is not null")
    later = [(one["pid"], one["path"]) for one in report["programs"][1:]]
    assert sorted((row["pid"], row["point"]) for row in marks) == sorted(later)


TWO = """
__attribute__((noipa)) int work(int n) { __asm__ volatile(""); return n + 1; }
int main(void) { int n = 0; while (n < COUNT) n = work(n); return 0; }
"""


def two_programs(directory: Path) -> tuple[Path, Path]:
    """Build two programs: `one` calls work() 10 times, and `two` 20 times."""
    made = [compile_text(directory, name, TWO, "-O1", f"-DCOUNT={count}") for name, count in (("one", 10), ("two", 20))]
    return made[0], made[1]


def test_functions_of_one_name_are_told_apart_by_image(tmp_path: Path) -> None:
    one, two = two_programs(tmp_path)
    line = shlex.join([str(one)]) + "; " + shlex.join([str(two)]) + "; true"
    traced(tmp_path, "--scope", "one:", "--scope", "two:", "--", "sh", "-c", line)
    shown = json.loads(run_gilk("show", "--json", tmp_path / "t.parquet").stdout)
    counts = {(row["image"], row["function"]): row["calls"] for row in shown["functions"]}
    assert counts["one", "work"] == 10 and counts["two", "work"] == 20
    assert counts["one", "main"] == counts["two", "main"] == 1


def test_calls_of_a_program_executed_in_a_process_are_not_within_the_former_one(tmp_path: Path) -> None:
    """A shell that executes a program in its place ends there, and the program's calls are not within the shell's."""
    _, two = two_programs(tmp_path)
    traced(tmp_path, "--scope", "dash:", "--scope", "two:", "--", "dash", "-c", f"exec {shlex.quote(str(two))}")
    table = rows(tmp_path, "select distinct pid from samples")
    assert len(table) == 1
    shown = run_gilk("show", "--tree", tmp_path / "t.parquet").stdout
    (pid,) = (row["pid"] for row in table)
    first, second = shown.split(f"two ({pid}), stack 1\n")
    assert f"dash ({pid})\n" in first and "work" not in first
    assert re.search(r"^ *\S+ +\S+ +20 .* work( \(\S+\))?$", second, re.MULTILINE) and "sub_" not in second


@pytest.mark.stress
def test_an_exported_trace_of_several_programs_nests_as_the_format_requires(tmp_path: Path) -> None:
    """The calls of a thread nest, as the format requires, also if the thread has executed another program."""
    traced(tmp_path, "--scope", "exec:", "--", build("exec"), "5")
    assert run_gilk("export", "--to", "chrome", "-o", tmp_path / "t.json", tmp_path / "t.parquet").returncode == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert sum(event.get("name") == "hot" and event["ph"] in "XB" for event in events) == 500
    for words in (["anomalies"], ["diff", tmp_path / "t.parquet"], ["show", "--tree"], ["show"]):
        done = run_gilk(*words, tmp_path / "t.parquet")
        assert done.returncode == 0, done.stderr
    done = run_gilk("diff", tmp_path / "t.parquet", tmp_path / "t.parquet")
    assert "only in" not in done.stdout, done.stdout


def following(*words: str | Path) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-m", "gilk", "trace", "--follow", *map(str, words)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **ENVIRONMENT})


TICKING = """
#include <stdio.h>
#include <unistd.h>
__attribute__((noipa)) void tick(void) { __asm__ volatile(""); }
int main(void) { write(1, "ready\\n", 6); for (;;) { tick(); usleep(2000); } }
"""


@contextmanager
def shell_with_two(tmp_path: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """Follow a shell with two programs. Yields the client, and the numbers of all three processes."""
    program = shlex.quote(str(compile_text(tmp_path, "ticking", TICKING, "-O1", "-w")))
    line = f"{program} & {program} & wait"
    client = following("--all", "--scope", "ticking:", "-o", tmp_path / "t.parquet", *words, "--", "sh", "-c", line)
    pids: list[int] = []
    with client:
        try:
            assert client.stdout and client.stdout.readline() == client.stdout.readline() == b"ready\n"
            shell = next(pid for pid in descendants(client.pid) if comm(pid) == "sh")
            pids = [shell, *children(shell)]
            assert len(pids) == 3 and all(map(leftovers, pids[1:])), pids
            yield client, pids
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            client.kill()


def descendants(pid: int) -> list[int]:
    found = children(pid)
    return [*found, *(below for each in found for below in descendants(each))]


def waits(pid: int) -> int:
    """The number of times that a process has gone to sleep by itself."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.MULTILINE)[0])


def assert_clean(pids: list[int]) -> None:
    """Assert that nothing of gilk is in the processes, and that they go on."""
    for pid in pids:
        assert wait_for(lambda pid=pid: not leftovers(pid) and not differences(pid) and not tracer(pid)), pid
    for pid in pids[1:]:
        before = waits(pid)
        assert wait_for(lambda pid=pid, before=before: waits(pid) > before + 10)


def has_records(directory: Path, processes: int = 1) -> bool:
    """Whether the file of a running trace has calls of so many processes."""
    partial = directory / "t.parquet.partial"
    if not partial.exists():
        return False
    counted = "select count(distinct pid) from samples where kind in ('time-entry', 'time-head')"
    found = run_gilk("query", "--json", directory / "t.parquet", counted)
    return found.returncode == 0 and json.loads(found.stdout)["rows"][0][0] >= processes


def test_all_processes_are_clean_when_the_client_is_killed(tmp_path: Path) -> None:
    """The calls that were recorded until then can be read."""
    with shell_with_two(tmp_path) as (client, pids):
        assert wait_for(lambda: has_records(tmp_path, 2))
        client.send_signal(signal.SIGKILL)
        assert_clean(pids)
        shown = json.loads(run_gilk("show", "--json", tmp_path / "t.parquet").stdout)
        assert shown["partial"] and shown["records"] > 0
        assert set(calls_of(tmp_path, "tick")) == set(pids[1:])


def test_an_interrupt_ends_the_trace_and_leaves_all_running(tmp_path: Path) -> None:
    """The first SIGINT belongs to the command, which ignores it, so the test sends SIGTERM, which gilk heeds."""
    with shell_with_two(tmp_path, "--json") as (client, pids):
        assert wait_for(lambda: has_records(tmp_path, 2))
        client.send_signal(signal.SIGTERM)
        assert_clean(pids)
        assert wait_for(lambda: not (tmp_path / "t.parquet.partial").exists())
        assert set(calls_of(tmp_path, "tick")) == set(pids[1:])


def serve(server: subprocess.Popen[bytes], requests: bytes) -> int:
    """The number of requests that the server answered: each answer says that a child has ended with status 0."""
    assert server.stdin and server.stdout
    for byte in requests:
        server.stdin.write(bytes([byte]))
        server.stdin.flush()
        assert server.stdout.readline() == b"0 0\n"
    return len(requests)


def test_the_children_of_an_attached_server_are_followed(tmp_path: Path) -> None:
    """The server's forked children go on in its program, or execute another; afterwards the server is what it was."""
    program = compile_text(tmp_path, "server", SERVER, "-O1", "-w")
    server = subprocess.Popen([program, "loop"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with server:
        assert server.stdin and server.stdout and server.stdout.readline() == b"ready\n"
        words = ("--all", "--json", "--scope", "server:", "-o", tmp_path / "t.parquet", "-p", str(server.pid))
        with following(*words) as client:
            assert wait_for(lambda: bool(serve(server, b"f")) and has_records(tmp_path))  # the trace has begun
            assert serve(server, b"xfxfx") == 5
            client.send_signal(signal.SIGINT)
            assert client.stdout
            report = json.loads(client.stdout.read().splitlines()[-1])
        assert report["restored"] is True and len(report["programs"]) == 4, json.dumps(report)
        served = calls_of(tmp_path, "served")
        assert set(served.values()) == {1} and len(served) > 5  # a request of the wait may precede the trace
        assert {one["pid"] for one in report["programs"][1:]} <= set(served)
        assert not differences(server.pid) and not leftovers(server.pid) and tracer(server.pid) == 0
        server.stdin.close()
        assert server.wait() == 0


@pytest.mark.stress
def test_a_trace_started_by_a_signal_has_earlier_and_later_programs(tmp_path: Path) -> None:
    """Nothing is recorded until the signal; programs that wait for it are followed from then on."""
    with shell_with_two(tmp_path, "--start", "signal:USR2", "--json") as (client, pids):
        assert wait_for(lambda: all(map(leftovers, pids[1:])))
        client.send_signal(signal.SIGUSR2)
        assert wait_for(lambda: has_records(tmp_path))
        client.send_signal(signal.SIGTERM)
        assert_clean(pids)
    found = rows(tmp_path, "select distinct pid from samples where kind = 'time-entry'")
    assert {row["pid"] for row in found} <= set(pids[1:]) and found


@pytest.mark.parametrize(("words", "says"), [
    (["--start", "call:main"], "call:main"),
    (["--stop", "return:main"], "return:main"),
    (["--kernel"], "kernel"),
    (["--on", "lab", "--kernel"], "kernel"),
])  # fmt: skip
def test_options_that_follow_does_not_support_are_refused(tmp_path: Path, words: list[str], says: str) -> None:
    done = run_gilk("trace", "--follow", *words, "--", "true", cwd=tmp_path)
    assert done.returncode == 2 and "(cannot-follow)" in done.stderr and says in done.stderr


def test_a_scope_that_matches_in_no_program_is_an_error(tmp_path: Path) -> None:
    done = run_gilk("trace", "--follow", "--scope", "nosuch:", "--", "sh", "-c", "/bin/true; true", cwd=tmp_path)
    assert done.returncode == 2 and "(nothing-to-follow)" in done.stderr and not list(tmp_path.iterdir())


@pytest.mark.stress
def test_programs_that_share_a_name_are_reported(tmp_path: Path) -> None:
    """The two programs are one image in the trace."""
    paths = []
    for name, count in (("a", 10), ("b", 20)):
        (tmp_path / name).mkdir()
        paths.append(compile_text(tmp_path / name, "same", TWO, "-O1", f"-DCOUNT={count}"))
    report = traced(tmp_path, "--scope", "same:", "--", "sh", "-c", f"{paths[0]}; {paths[1]}; true")
    assert any("2 programs are called same here" in note for note in report["notes"])
    assert sorted(calls_of(tmp_path, "work").values()) == [10, 20]


THIRTY_TWO_BITS = (
    b"\x7fELF\x01\x01\x01" + bytes(9)
    + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, 0x8048054, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    + struct.pack("<IIIIIIII", 1, 0, 0x8048000, 0x8048000, 96, 96, 5, 4096)
    + bytes.fromhex("b801000000bb07000000cd80")  # mov $1,%eax; mov $7,%ebx; int $0x80: exit(7)
)  # fmt: skip


def test_a_program_that_cannot_be_followed_is_named(tmp_path: Path) -> None:
    """The program runs all the same, and the trace says that it is partial."""
    odd = tmp_path / "odd"
    odd.write_bytes(THIRTY_TWO_BITS)
    odd.chmod(0o755)
    if subprocess.run([odd], check=False).returncode != 7:
        pytest.skip("this kernel runs no 32-bit programs")
    report = traced(tmp_path, "--scope", "libc.so.6:write", "--", "sh", "-c", f"{odd}; echo $?")
    (missed,) = (one for one in report["programs"] if one["slug"])
    assert missed["path"] == str(odd) and report["partial"] is True
    done = run_gilk(
        "trace", "--follow", "--scope", "libc.so.6:write", "--", "sh", "-c", f"{odd}; echo $?", cwd=tmp_path
    )
    assert done.stdout == "7\n" and f"({odd})" in done.stderr and "this is a partial result" in done.stderr
