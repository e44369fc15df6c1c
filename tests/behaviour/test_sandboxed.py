# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes with restrictions: filters of system calls, and limits on memory."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gilk
from tests.behaviour.harness import ENVIRONMENT, differences, leftovers, run_gilk, wait_for
from tests.programs.build import compile_text
from tests.seldom import seldom

#: Counts for each byte of input, under a filter of its kind: strict, or one that allows little. With `l` it waits for a
#: line first.
PROGRAM = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noinline, noclone)) long hot(long x) { __asm__ volatile("" ::: "memory"); return x + 1; }

/* Two more calls are allowed. */
static void filter(unsigned int otherwise, int one, int another)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 5, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 3, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, one, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, another, 1, 0), BPF_STMT(BPF_RET | BPF_K, otherwise),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {8, steps};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) abort();
}

int main(int argc, char **argv)
{
	long count = 0;
	char letter, text[32];
	const char *kind = argc > 1 ? argv[1] : "";
	if (*kind == 'l') {
		if (write(1, "ready\n", 6) != 6) return 1;
		while (read(0, &letter, 1) == 1 && letter != '\n') count = hot(count);
		kind++;
	}
	if (!strcmp(kind, "strict") && prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) abort();
	if (!strcmp(kind, "kill")) filter(SECCOMP_RET_KILL_PROCESS, SYS_read, SYS_read);
	if (!strcmp(kind, "trap")) filter(SECCOMP_RET_TRAP, SYS_read, SYS_read);
	if (!strcmp(kind, "errno")) filter(SECCOMP_RET_ERRNO | 1, SYS_read, SYS_read);
	if (!strcmp(kind, "numbers")) filter(SECCOMP_RET_KILL_PROCESS, SYS_getpid, SYS_gettid);
	if (*kind >= '0' && *kind <= '9') {
		struct rlimit limit = {strtoul(kind, NULL, 0) << 20, strtoul(kind, NULL, 0) << 20};
		if (setrlimit(RLIMIT_AS, &limit)) abort();
	}
	if (write(1, "ready\n", 6) != 6) return 1;
	while (read(0, &letter, 1) == 1) count = hot(count);
	text[0] = '0' + count % 10;
	if (write(1, text, 1) != 1) return 1;
	syscall(strcmp(kind, "strict") ? SYS_exit_group : SYS_exit, 0);
}
"""
POKES = 37


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("sandboxed"), "sandboxed", PROGRAM, "-O2")


@contextlib.contextmanager
def sandboxed(program: Path, kind: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program, which has to go on, and to end as it would have undisturbed."""
    child = subprocess.Popen([program, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout and child.stdout.readline() == b"ready\n"
    yield child
    out, _ = child.communicate(b"." * POKES, timeout=250)
    assert (out, child.returncode) == (b"7", 0)


def may_suspend() -> bool:
    """Whether gilk may suspend filters: it has CAP_SYS_ADMIN, and no filter itself."""
    status = dict(line.partition(":")[::2] for line in Path("/proc/self/status").read_text().splitlines())
    return bool(int(status["CapEff"], 16) >> 21 & 1) and status["Seccomp"].strip() == "0"


def count(child: subprocess.Popen[bytes], *before: str) -> dict[str, object]:
    words = [
        *before,
        sys.executable,
        "-m",
        "gilk",
        "run",
        "--json",
        "-i",
        "hot:entry=count",
        "-p",
        str(child.pid),
        "--for",
        "0.2",
    ]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **ENVIRONMENT}, timeout=250)
    report: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return report


def slug(report: dict[str, object]) -> object:
    error = report.get("error")
    return error["slug"] if isinstance(error, dict) else None


KINDS = ["strict", "kill", "trap", "errno"]


@pytest.mark.parametrize("kind", ["errno", "numbers"])
def test_a_client_with_the_right_suspends_seccomp_filters(program: Path, kind: str) -> None:
    """The filters would refuse gilk's own calls, or kill the process for them."""
    if not may_suspend():
        pytest.skip("takes CAP_SYS_ADMIN, and no filter on the tests themselves")
    with sandboxed(program, kind) as child, gilk.attach(child.pid) as target:
        with target.session() as session:
            session.insert("hot:entry", "count")
            assert child.stdin
            child.stdin.write(b"." * 30)
            child.stdin.flush()
            assert wait_for(lambda: session.counts() == {"sandboxed:hot:entry": 30})
        assert session.restored is True
        assert (differences(child.pid), leftovers(child.pid)) == ([], [])
        assert Path(f"/proc/{child.pid}/status").read_text().split("Seccomp:")[1].split()[0] == "2"


@pytest.mark.parametrize("kind", ["strict", "kill", "trap"])
@pytest.mark.parametrize("command", ["run", "trace", "dtrace"])
def test_a_process_whose_filter_kills_it_at_a_hit_is_refused(program: Path, command: str, kind: str) -> None:
    """It would die of the system calls that a thread makes at its first hit."""
    words = {
        "run": ["--json", "-i", "hot:entry=count"],
        "trace": ["--json", "--scope", "hot"],
        "dtrace": ["--json", "-n", "pid$target::hot:entry { @ = count(); }"],
    }
    with sandboxed(program, kind) as child:
        done = run_gilk(command, *words[command], "-p", str(child.pid))
        assert done.returncode in (1, 4) and "seccomp-blocks-hits" in done.stdout + done.stderr, done
        assert (differences(child.pid), leftovers(child.pid)) == ([], [])


UNPRIVILEGED = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_seccomp_filter_that_cannot_be_suspended_is_refused_without_trying(program: Path, kind: str) -> None:
    before = UNPRIVILEGED if os.geteuid() == 0 else []
    if before and shutil.which(before[0]) is None:
        pytest.skip("no setpriv")
    with sandboxed(program, kind) as child:
        expected = "seccomp-blocks-hits" if kind == "strict" else "refused-by-kernel"
        assert slug(count(child, *before)) == expected
        assert (differences(child.pid), leftovers(child.pid)) == ([], [])


@pytest.mark.parametrize("kind", KINDS)
def test_code_is_restored_when_a_filter_was_installed_during_the_session(
    program: Path, kind: str, tmp_path: Path
) -> None:
    """The process's code is restored, and it lives. A client that may not suspend the filter leaves its mappings
    there."""
    before = UNPRIVILEGED if os.geteuid() == 0 and shutil.which("setpriv") else []
    with sandboxed(program, f"l{kind}") as child:
        assert child.stdin and child.stdout
        asked = ["--json", "-o", str(tmp_path / "f.parquet"), "-i", "hot:blocks=count", "-p", str(child.pid)]
        words = [*before, sys.executable, "-m", "gilk", "run", *asked]
        run = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, **ENVIRONMENT})
        assert wait_for(lambda: any(tmp_path.iterdir())), "it has begun, and a signal ends it with a report"
        assert wait_for(lambda: differences(child.pid)), "its points are in force"
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"ready\n"
        run.terminate()
        out, _ = run.communicate(timeout=250)
        # A signal that comes before the command knows that the points are in force ends it without a report.
        assert [json.loads(line)["restored"] for line in out.splitlines()[-1:]] in ([True], [])
        assert wait_for(lambda: differences(child.pid) == [])


@pytest.mark.parametrize("launched", [False, True])
@pytest.mark.parametrize("instrument", seldom(["time", "count", "args"], 1))
def test_a_thread_that_was_there_before_its_filter_makes_no_system_call_at_a_hit(
    program: Path, instrument: str, launched: bool, tmp_path: Path
) -> None:
    """Its first hit comes when the filter kills for getpid(2)."""
    words = [sys.executable, "-m", "gilk", "run", "-q", "--json", "-i", f"sandboxed:hot:entry={instrument}"]
    words += ["-o", str(tmp_path / "f.parquet")]
    options: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "env": {**os.environ, **ENVIRONMENT},
    }
    if launched:
        run = subprocess.Popen([*words, "--", str(program), "kill"], **options)
        out, _ = run.communicate(b"." * POKES, timeout=250)
    else:
        with sandboxed(program, "lkill") as child:
            run = subprocess.Popen([*words, "-p", str(child.pid)], **options)
            assert wait_for(lambda: differences(child.pid)), "its points are in force"
            assert child.stdin and child.stdout
            child.stdin.write(b"\n")
            child.stdin.flush()
            assert child.stdout.readline() == b"ready\n"
        out, _ = run.communicate(timeout=250)
    report = json.loads(out[out.index(b'{"') :])
    assert run.returncode == 0, report
    assert report["lost"] == 0, report
    if instrument == "count":
        assert report["counts"] == {"sandboxed:hot:entry": POKES}, report
    else:
        assert report["records"] == POKES * (1 + (instrument == "time")), report


def test_d_refuses_clauses_that_read_memory_where_a_filter_may_kill_for_it(program: Path) -> None:
    """The process goes on, and clauses that need none of its memory can be enabled."""
    with sandboxed(program, "numbers") as child:
        for clause, status in (("@[copyinstr(arg0)] = count();", 1), ("stop();", 1), ("@ = count();", 0)):
            words = [
                "-q",
                "-w",
                "-p",
                str(child.pid),
                "-n",
                f"pid$target::hot:entry {{ {clause} }} tick-200ms {{ exit(0); }}",
            ]
            run = run_gilk("dtrace", *words)
            assert run.returncode == status, run.stderr
            assert ("has a seccomp filter of its own" in run.stderr) == bool(status)
            assert child.poll() is None
            assert differences(child.pid) == []


@pytest.mark.parametrize("limit", seldom(["300", "20", "2000"], 1))
@pytest.mark.parametrize("flags", [(), ("-no-pie", "-fno-pie", "-static")], ids=["anywhere", "low"])
def test_a_process_without_room_is_refused_and_keeps_no_memory_of_gilk(
    tmp_path: Path, flags: tuple[str, ...], limit: str
) -> None:
    """The limits, in megabytes of address space, leave room for nothing, for the code only, or for a part of the
    data."""
    program = compile_text(tmp_path, "limited", PROGRAM, "-O2", *flags)
    with sandboxed(program, limit) as child:
        assert slug(count(child)) == "refused-by-kernel"
        assert (differences(child.pid), leftovers(child.pid)) == ([], [])


@pytest.mark.parametrize("everybody", [False, True])
def test_buffers_of_d_are_halved_until_the_process_has_room(program: Path, everybody: bool) -> None:
    """If ``everybody``, the limit of 4000 megabytes also holds for gilk; the larger half of that is for buffers."""
    limits = (4000 << 20, 4000 << 20)
    with sandboxed(program, "4000") as child:
        before = differences(child.pid), leftovers(child.pid)
        text = "pid$target::hot:entry { } tick-10ms { trace(7); exit(0); }"
        run = subprocess.run(
            [sys.executable, "-m", "gilk", "dtrace", "-q", "-b", "4g", "-p", str(child.pid), "-n", text],
            env={**os.environ, **ENVIRONMENT},
            preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_AS, limits)) if everybody else None,
            capture_output=True,
            text=True,
        )
        assert (run.returncode, run.stdout.strip()) == (0, "7"), run.stderr
        assert "dtrace: buffer size lowered to" in run.stderr
        assert (differences(child.pid), leftovers(child.pid)) == before
