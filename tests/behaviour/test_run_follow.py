# SPDX-License-Identifier: LGPL-2.1-or-later
"""`gilk run --follow`: programs that the processes of a tree execute have their probes before their first
instruction."""

from __future__ import annotations

import collections
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.harness import ENVIRONMENT, Loop, children, cpu, differences, leftovers, run_gilk, state, wait_for
from tests.programs.build import build, compile_text

MAKEFILE = "all: a b c\na b c:\n\t@sh -c 'ls / > /dev/null; /bin/echo $@'\n"


def followed(insert: str, *command: str | Path, cwd: Path | None = None) -> dict[str, Any]:
    done = run_gilk("run", "--json", "--follow", "-i", insert, "--", *command, cwd=cwd)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert report["restored"] is True and not report["partial"], report["notes"]
    return report


def executed(directory: Path, *command: str) -> collections.Counter[str]:
    """The programs that a command executes, according to strace."""
    words = ["strace", "-f", "-qq", "-o", "strace.txt", "-e", "trace=execve", *command]
    subprocess.run(words, cwd=directory, check=True, stdout=subprocess.DEVNULL)
    text = (directory / "strace.txt").read_text()
    begun = dict(re.findall(r'^(\d+) +execve\("([^"]+)".*unfinished', text, re.MULTILINE))
    ended = re.findall(r"^(\d+) +<\.\.\. execve resumed>.* = 0$", text, re.MULTILINE)
    whole = re.findall(r'^\d+ +execve\("([^"]+)".*\) = 0$', text, re.MULTILINE)
    return collections.Counter(os.path.realpath(path) for path in [*whole, *(begun[pid] for pid in ended)])


def test_the_programs_followed_are_those_that_strace_sees(tmp_path: Path) -> None:
    """With -j2, two programs run at once; each makes the same calls as alone."""
    (tmp_path / "Makefile").write_text(MAKEFILE)
    report = followed("libc:malloc:entry=count", "make", "-j2", cwd=tmp_path)
    programs = report["programs"]
    assert collections.Counter(one["path"] for one in programs) == executed(tmp_path, "make", "-j2")
    assert all(one["points"] == 1 and not one["slug"] for one in programs)
    alone = json.loads(
        run_gilk("run", "--json", "-i", "libc:malloc:entry=count", "--", "/bin/echo", "a").stdout.split("\n")[1]
    )
    echoes = [one["counts"] for one in programs if one["path"].endswith("/echo")]
    assert echoes == [alone["counts"]] * 3
    assert report["counts"] == {"libc.so.6:malloc:entry": sum(sum(one["counts"].values()) for one in programs)}


def test_without_follow_executed_programs_are_not_in_the_report(tmp_path: Path) -> None:
    """Negative control: without --follow the programs are not seen."""
    done = run_gilk("run", "--json", "-i", "hot:entry=count", "--", build("exec"), "5")
    assert "programs" not in json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("name", "arguments", "hits", "programs"), [
    ("exec", ("5",), 500, 6),  # executes itself, the first time from another thread than the first
    ("vfork", ("5",), 15, 6),  # children that share their parent's memory until they execute
    ("fork", ("5",), 550, 1),  # children that execute nothing
])  # fmt: skip
def test_programs_are_followed_however_they_begin(
    name: str, arguments: tuple[str, ...], hits: int, programs: int
) -> None:
    report = followed("hot:entry=count", build(name), *arguments)
    assert report["counts"] == {f"{name}:hot:entry": hits}
    assert len(report["programs"]) == programs
    assert sum(sum(one["counts"].values()) for one in report["programs"]) == hits


def test_records_of_all_programs_are_in_one_file(tmp_path: Path) -> None:
    words = ["run", "-q", "--follow", "-i", "hot:entry=time", "-o", "f.parquet", "--", build("exec"), "4"]
    assert run_gilk(*words, cwd=tmp_path).returncode == 0
    shown = json.loads(run_gilk("show", "--json", "f.parquet", cwd=tmp_path).stdout)
    assert shown["latency"]["hot"]["count"] == 400


SERVER = r"""
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noipa)) void served(void) { __asm__ volatile(""); }
static volatile int usr1;
static void on_usr1(int number) { usr1 += number == SIGUSR1; }
int main(int count, char **words)
{
	char byte;
	int status;
	if (words[1][0] == 'w') {
		served();
		return 0;
	}
	signal(SIGUSR1, on_usr1);
	write(1, "ready\n", 6);
	while (read(0, &byte, 1) == 1) {
		pid_t child = fork();
		if (!child && byte == 'x') {
			execl("/proc/self/exe", "server", "work", (char *)0);
			_exit(1);
		}
		if (!child) {
			served();
			_exit(0);
		}
		waitpid(child, &status, 0);
		dprintf(1, "%d %d\n", status, usr1);
	}
	return 0;
}
"""


PLAIN = "import sys; from gilk.cli.main import run; sys.exit(run())"


@contextmanager
def following(process: subprocess.Popen[bytes], insert: str, gilk: str = PLAIN) -> Iterator[subprocess.Popen[bytes]]:
    """A client, the program ``gilk``, that follows a process. Its instruments are in, and it reports every 50 ms."""
    words = [sys.executable, "-c", gilk, "run", "--json", "--follow", "--every", "50ms", "-i", insert]
    environment = {**os.environ, **ENVIRONMENT}
    with subprocess.Popen([*words, "-p", str(process.pid)], stdout=subprocess.PIPE, env=environment) as client:
        assert client.stdout and client.stdout.readline()
        yield client


def test_the_children_of_an_attached_server_are_followed(tmp_path: Path) -> None:
    """The server forks children that go on, and others that execute a program. It receives signals meanwhile."""
    program = compile_text(tmp_path, "server", SERVER, "-O1", "-w")
    server = subprocess.Popen([program, "loop"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with server:
        assert server.stdin and server.stdout and server.stdout.readline() == b"ready\n"
        with following(server, "served:entry=count") as client:
            assert client.stdout  # after a first period everything is in
            for turn, byte in enumerate(b"xfxfx"):
                server.send_signal(signal.SIGUSR1)
                server.stdin.write(bytes([byte]))
                server.stdin.flush()
                assert server.stdout.readline() == b"0 %d\n" % (turn + 1)
            client.send_signal(signal.SIGINT)
            report = json.loads(client.stdout.read().splitlines()[-1])
        assert report["counts"] == {"server:served:entry": 5} and report["restored"] is True, json.dumps(report)
        assert [sum(one["counts"].values()) for one in report["programs"]] == [2, 1, 1, 1]
        assert not differences(server.pid) and not leftovers(server.pid) and tracer(server.pid) == 0
        server.stdin.close()
        assert server.wait() == 0


#: Gilk whose keeper waits for a silent client for one second.
IMPATIENT = "import sys; from gilk.targets import serving; from gilk.cli.main import run; serving._PATIENCE = 1.0; "
IMPATIENT += "sys.exit(run())"


def stop(client: subprocess.Popen[bytes]) -> None:
    client.send_signal(signal.SIGSTOP)
    assert wait_for(lambda: state(client.pid) == "T")


def test_programs_do_not_wait_for_a_client_that_is_stopped(tmp_path: Path) -> None:
    """Six programs are executed meanwhile, the first of which waits for some time. The report accounts for all, and
    programs are followed again once the client goes on."""
    program = compile_text(tmp_path, "server", SERVER, "-O1", "-w")
    with subprocess.Popen([program, "loop"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin and server.stdout and server.stdout.readline() == b"ready\n"
        executed = 0

        def work(times: int) -> None:
            nonlocal executed
            assert server.stdin and server.stdout
            executed += times
            for _ in range(times):
                server.stdin.write(b"x")
                server.stdin.flush()
                assert server.stdout.readline() == b"0 0\n"

        with following(server, "served:entry=count", IMPATIENT) as client:
            assert client.stdout
            work(1)
            stop(client)
            work(6)
            client.send_signal(signal.SIGCONT)
            seen = 0
            while seen < 2:  # each line has the calls of one period; the first call was before
                period = json.loads(client.stdout.readline())
                seen += sum(period["counts"].values())
                work(1)
            client.send_signal(signal.SIGINT)
            report = json.loads(client.stdout.read().splitlines()[-1])
        assert not differences(server.pid) and not leftovers(server.pid) and tracer(server.pid) == 0
        server.stdin.close()
    slugs = collections.Counter(one["slug"] for one in report["programs"])
    (note,) = [note for note in report["notes"] if "kept-waiting" in note]
    assert report["partial"] and slugs["kept-waiting"] >= 1  # more on a busy machine
    assert note.endswith(" more programs ran without instruments, while gilk stood still (kept-waiting)")
    assert int(note.split()[0]) >= 5 and int(note.split()[0]) + len(report["programs"]) - 1 == executed


#: The same, with lines that take few news.
NARROW = """import socket
made = socket.socketpair
def narrow():
    pair = made()
    for each in pair:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    return pair
socket.socketpair = narrow
"""
CROWD = "read; for ((i = 0; i < 60; i++)); do /bin/true & read -t 0.01; done; wait; echo over; read"


@pytest.mark.stress
def test_more_programs_than_the_client_can_be_told_of_do_not_wait_for_it() -> None:
    """The news of them fill the line to the client, which is stopped."""
    with subprocess.Popen(["bash", "-c", CROWD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdin and shell.stdout
        with following(shell, "libc:malloc:entry=count", NARROW + IMPATIENT) as client:
            assert client.stdout
            stop(client)
            shell.stdin.write(b"\n")
            shell.stdin.flush()
            assert shell.stdout.readline() == b"over\n"
            client.send_signal(signal.SIGCONT)
            client.send_signal(signal.SIGINT)
            report = json.loads(client.stdout.read().splitlines()[-1])
        shell.stdin.close()
        assert shell.wait() == 1
    (note,) = [note for note in report["notes"] if "kept-waiting" in note]
    assert report["restored"] is True and report["partial"]
    assert int(note.split()[0]) + len(report["programs"]) - 1 == 60


def tracer(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"^TracerPid:\s*(\d+)", status, re.MULTILINE)[0])


SHELL = """{program} loop < {fifo} & {program} loop < {fifo} & wait"""


@contextmanager
def two_loops(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """Follow a shell with two programs that both have their probes. Yields the client, and the numbers of all three
    processes."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    kept = os.open(fifo, os.O_RDWR)
    line = SHELL.format(program=build("hot8"), fifo=fifo)
    words = [sys.executable, "-m", "gilk", "run", "-q", "--follow", "-i", "hot8:*:entry=count", "-c", f"sh -c '{line}'"]
    client = subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, **ENVIRONMENT})
    pids: list[int] = []
    with client:
        try:
            assert client.stdout and client.stdout.readline() == client.stdout.readline() == b"ready\n"
            keeper = next(pid for pid in _descendants(client.pid) if comm(pid) == "sh")
            pids = [keeper, *children(keeper)]
            assert len(pids) == 3 and all(map(leftovers, pids[1:])), pids
            yield client, pids
        finally:
            os.close(kept)
            for pid in pids:
                with suppress(ProcessLookupError):  # the process has ended with its input
                    os.kill(pid, signal.SIGKILL)
            client.kill()


def comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _descendants(pid: int) -> list[int]:
    found = children(pid)
    return [*found, *(below for each in found for below in _descendants(each))]


def test_all_processes_are_clean_when_the_client_is_killed(tmp_path: Path) -> None:
    with two_loops(tmp_path) as (client, pids):
        client.send_signal(signal.SIGKILL)
        for pid in pids:
            assert wait_for(lambda pid=pid: not leftovers(pid) and not differences(pid) and not tracer(pid)), pid
        for pid in pids[1:]:
            ticks = cpu(pid)
            assert wait_for(lambda pid=pid, ticks=ticks: cpu(pid) > ticks)


@pytest.mark.stress  # a killed keeper may leave an unfinished system call in the program (docs/limits.md)
def test_all_processes_go_on_when_the_keeper_is_killed(tmp_path: Path) -> None:
    """The processes keep their probes, which `gilk restore` takes out."""
    with two_loops(tmp_path) as (client, pids):
        keeper = tracer(pids[0])
        assert keeper and {tracer(pid) for pid in pids} == {keeper}
        assert wait_for(lambda: all(map(differences, pids[1:])))  # the session's first system calls are over
        os.kill(keeper, signal.SIGKILL)
        client.wait()
        for pid in pids[1:]:
            ticks = cpu(pid)
            assert wait_for(lambda pid=pid, ticks=ticks: cpu(pid) > ticks) and tracer(pid) == 0
            assert run_gilk("restore", str(pid)).returncode == 0
            assert not differences(pid)


def test_scripts_and_static_programs_are_followed(tmp_path: Path) -> None:
    source = '__attribute__((noipa)) void tick(void) { __asm__ volatile("nop; nop; nop; nop; nop; nop"); }\nint main(void) { tick(); return 0; }'
    program = compile_text(tmp_path, "fixed", source, "-O1", "-static")
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\n{program}\n{program}; true\n")
    script.chmod(0o755)
    report = followed("fixed:tick:entry=count", script)
    assert report["counts"] == {"fixed:tick:entry": 2} and len(report["programs"]) == 3


@pytest.mark.stress
def test_a_stopped_job_stays_stopped(tmp_path: Path) -> None:
    """gilk does not run a process that somebody else has stopped, though it traces its threads; and SIGCONT wakes it.

    It may be gilk that has stopped it at first, so the process may take a moment to reach its final stop.
    """
    with two_loops(tmp_path) as (_, pids):
        one, other = pids[1:]
        os.kill(one, signal.SIGSTOP)
        assert wait_for(lambda: stat(one) in "tT" and stands_still(one, other))
        ticks = cpu(one)
        os.kill(one, signal.SIGCONT)
        assert wait_for(lambda: cpu(one) > ticks + 1)


def stands_still(one: int, other: int) -> bool:
    """Whether process ``one`` does not run while ``other`` runs for a fifth of a second."""
    ticks, running = cpu(one), cpu(other)
    assert wait_for(lambda: cpu(other) > running + os.sysconf("SC_CLK_TCK") / 5)
    return cpu(one) == ticks


def stat(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def test_points_that_match_in_no_program_are_reported(tmp_path: Path) -> None:
    done = run_gilk("run", "--json", "--follow", "-i", "libnowhere:f:entry=count", "--", "sh", "-c", "true; /bin/true")
    report = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0 and report["partial"] and len(report["programs"]) == 2
    assert any("libnowhere" in note for note in report["notes"])


@pytest.mark.parametrize("words", [["-i", "kernel:vfs_read:entry=count"], ["-i", "main=@path"], ["--on", "lab"]])
def test_options_that_follow_does_not_support_are_refused(words: list[str]) -> None:
    done = run_gilk("run", "--follow", "-i", "main:entry=count", *words, "--", "true")
    assert done.returncode == 2 and "(cannot-follow)" in done.stderr


@pytest.mark.stress
def test_following_a_process_that_another_session_has_is_refused() -> None:
    with Loop([build("hot8")]) as loop:
        words = [sys.executable, "-m", "gilk", "run", "--json", "--every", "50ms", "-i", "hot8:*:entry=count"]
        first = [*words, "-p", str(loop.pid)]
        with subprocess.Popen(first, stdout=subprocess.PIPE, env={**os.environ, **ENVIRONMENT}) as client:
            assert client.stdout and client.stdout.readline()
            done = run_gilk("run", "--follow", "-i", "hot8:*:entry=count", "-p", str(loop.pid))
            client.send_signal(signal.SIGINT)
            client.stdout.read()
        assert done.returncode != 0 and "(follow-alone)" in done.stderr
