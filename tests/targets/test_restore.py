# SPDX-License-Identifier: LGPL-2.1-or-later
"""The remains in a target when client and keeper are both killed, and how `restore` repairs them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gilk
from gilk.arch.asm import JMP8, JMP32
from gilk.errors import TargetError
from gilk.targets import ptrace
from gilk.targets.memory import ProcessMemory
from tests.behaviour.harness import ENVIRONMENT, Loop, cpu, differences, run_gilk, state, wait_for
from tests.programs.build import build, compile_text

CLIENT = """
import sys, time
import gilk
target = gilk.attach(int(sys.argv[1]))
session = target.session()
session.insert("hot:blocks", "count")
print(target.process.keeper.pid, flush=True)
time.sleep(600)
"""


FOLLOWER = """
import sys, time
import gilk
from gilk.engines.follow.follower import Follower
from gilk.engines.follow.scope import TraceScope
target = gilk.attach(int(sys.argv[1]))
session = Follower(target.process)
functions, trouble = session.prepare(target.images, TraceScope())
assert not trouble and session.copy_code()
session.follow(functions)
print(target.process.keeper.pid, flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def session_in(pid: int, script: str = CLIENT) -> Iterator[int]:
    """Run a session in ``pid``, and yield the number of its keeper. At the end the client is killed, then the keeper
    if it is still there."""
    client = subprocess.Popen(
        [sys.executable, "-c", script, str(pid)], stdout=subprocess.PIPE, text=True, env={**os.environ, **ENVIRONMENT}
    )
    assert client.stdout
    try:
        yield int(client.stdout.readline())
    finally:
        client.kill()
        client.communicate()


def abandon(pid: int, script: str = CLIENT) -> None:
    """Run a session in ``pid`` whose keeper and client are killed, in this order."""
    with session_in(pid, script) as keeper:
        os.kill(keeper, signal.SIGKILL)


def test_an_abandoned_process_runs_on_refuses_sessions_and_can_be_restored() -> None:
    with Loop([build("hot8")]) as loop:
        abandon(loop.pid)
        assert differences(loop.pid)
        with gilk.attach(loop.pid) as target, pytest.raises(TargetError) as refused:
            target.session()
        assert refused.value.slug == "gs-in-use" and f"`gilk restore {loop.pid}`" in refused.value.hint
        assert loop.alive()

        restored = gilk.restore(loop.pid)
        assert restored.bytes["hot8"] > 0
        assert wait_for(lambda: not differences(loop.pid))
        if restored.waiting:  # on a busy machine a thread may come out of gilk's memory later
            assert wait_for(lambda: not gilk.restore(loop.pid).waiting)

        with gilk.attach(loop.pid) as target, target.session() as session:
            session.insert("hot:entry", "count")
            assert wait_for(lambda: session.counts()["hot8:hot:entry"] > 0)
        assert session.restored
        assert "ok hot8" in loop.finish()


def test_code_that_was_exchanged_for_a_copy_is_put_back() -> None:
    with Loop([build("work")]) as loop:
        before = executable_files(loop.pid)
        abandon(loop.pid, FOLLOWER)
        assert executable_files(loop.pid) != before
        assert loop.alive()
        gilk.restore(loop.pid)
        assert executable_files(loop.pid) == before
        assert wait_for(lambda: not differences(loop.pid))
        assert "ok work" in loop.finish()


def executable_files(pid: int) -> list[str]:
    """The lines of /proc/PID/maps about the executable mappings of files."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line for line in lines if " r-xp " in line and "/memfd:" not in line and "/" in line]


def test_a_process_that_gilk_never_touched_has_nothing_to_restore() -> None:
    with Loop([build("hot8")]) as loop:
        with pytest.raises(TargetError) as caught:
            gilk.restore(loop.pid)
        assert caught.value.slug == "nothing-to-restore"
        assert loop.alive()


#: Probes at all blocks, so that there are bounces and puns as well.
EVERYWHERE = CLIENT.replace("hot:blocks", "shortblocks:*:blocks").replace(
    "print(", "assert {'bounce', 'pun'} <= session.tactics().keys(), session.tactics()\nprint("
)


def test_bounces_and_puns_are_put_back() -> None:
    with Loop([build("shortblocks", "O1")]) as loop:
        abandon(loop.pid, EVERYWHERE)
        assert differences(loop.pid)
        assert gilk.restore(loop.pid).left == ()
        assert differences(loop.pid) == []


def original_code(pid: int) -> dict[int, int]:
    """The bytes that the program's own code has in its file, by address."""
    found = {}
    for line in executable_files(pid):
        fields = line.split()
        start, end = (int(part, 16) for part in fields[0].split("-"))
        if Path(fields[5]) == Path(f"/proc/{pid}/exe").readlink():
            content = Path(fields[5]).read_bytes()[int(fields[2], 16) :][: end - start]
            found.update(zip(range(start, end), content, strict=False))
    return found


def stop_at_a_second_jump(tid: int) -> None:
    """Single-step a thread until one of gilk's short jumps has led it to a long jump amid the program's code, and
    stop it there."""
    memory, original, before = ProcessMemory(tid), original_code(tid), 0

    def has(address: int, jump: bytes) -> bool:
        return address in original and memory.some(address, 1) == jump != bytes([original[address]])

    ptrace.seize(tid)
    ptrace.call(ptrace.INTERRUPT, tid)
    os.waitpid(tid, ptrace.WALL)
    while not (has(before, JMP8) and has(rip := ptrace.get_registers(tid).rip, JMP32)):
        before = ptrace.get_registers(tid).rip
        ptrace.call(ptrace.SINGLESTEP, tid, 0, 0)
        os.waitpid(tid, ptrace.WALL)
    memory.close()
    os.kill(tid, signal.SIGSTOP)  # the thread takes it before it executes anything else
    ptrace.call(ptrace.DETACH, tid, 0, 0)
    assert wait_for(lambda: state(tid) == "T"), hex(rip)


def test_a_thread_in_the_middle_of_a_bounce_goes_on() -> None:
    """The original code at the second jump does not follow the instruction at the first."""
    with Loop([build("shortblocks", "O1")]) as loop:
        abandon(loop.pid, EVERYWHERE)
        stop_at_a_second_jump(loop.pid)
        assert gilk.restore(loop.pid).left == ()
        assert differences(loop.pid) == []
        os.kill(loop.pid, signal.SIGCONT)
        ticks = cpu(loop.pid)
        assert wait_for(lambda: not loop.alive() or cpu(loop.pid) > ticks + 10)
        assert "ok shortblocks" in loop.finish()


def test_a_session_that_has_its_keeper_is_left_alone() -> None:
    with Loop([build("hot8")]) as loop:
        with gilk.attach(loop.pid) as target, target.session() as session:
            session.insert("hot:entry", "count")
            with pytest.raises(TargetError) as refused:
                gilk.restore(loop.pid)
            assert refused.value.slug == "in-session"
            before = session.counts()["hot8:hot:entry"]
            assert wait_for(lambda: session.counts()["hot8:hot:entry"] > before)
        assert session.restored
        with session_in(loop.pid) as keeper:
            os.kill(keeper, signal.SIGKILL)
            assert wait_for(lambda: not Path(f"/proc/{keeper}/fd").exists() or not os.listdir(f"/proc/{keeper}/fd"))
            gilk.restore(loop.pid)  # its client is there, but can do nothing any more
            assert differences(loop.pid) == []


#: A program that changes a constant in its own code, prints its address, and prints its value whenever it is asked.
SELF_PATCHING = r"""
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

__asm__(".globl value\n.type value, @function\nvalue: movabs $0x1111111111111111, %rax\n ret\n.size value, .-value\n"
	".globl idle\n.type idle, @function\nidle: lea 1(%rdi), %rax\n ret\n.size idle, .-idle\n");
unsigned long value(void);
long idle(long);
__attribute__((noinline, noclone)) long hot(long x) { __asm__ volatile("" ::: "memory"); return x + 1; }

int main(void)
{
	unsigned long constant = 42, code = (unsigned long)value;
	long state = 0;

	if (mprotect((void *)(code & -4096UL), 8192, PROT_READ | PROT_WRITE | PROT_EXEC)) return 1;
	memcpy((char *)value + 2, &constant, sizeof constant);
	if (mprotect((void *)(code & -4096UL), 8192, PROT_READ | PROT_EXEC)) return 1;
	printf("%lu %lu\n", (unsigned long)value, (unsigned long)idle);
	fflush(stdout);
	while (getchar() != EOF) {
		state = hot(state);
		printf("%lx\n", value());
		fflush(stdout);
	}
	return 0;
}
"""


def test_code_that_others_have_changed_is_left_and_named(tmp_path: Path) -> None:
    """The writers are the program itself, and a debugger, whose breakpoint is one byte."""
    program = compile_text(tmp_path, "patches", SELF_PATCHING, "-O2")
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin and process.stdout
        value, idle = (int(word) for word in process.stdout.readline().split())
        with open(f"/proc/{process.pid}/mem", "rb+", 0) as memory:
            memory.seek(idle)
            memory.write(b"\xcc")
            memory.seek(value & -4096)
            before = memory.read(8192)
            abandon(process.pid, CLIENT.replace("hot:blocks", "patches:hot:blocks"))
            memory.seek(value & -4096)
            assert memory.read(8192) != before
            done = run_gilk("restore", "--json", str(process.pid))
            memory.seek(value & -4096)
            assert memory.read(8192) == before
        report = json.loads(done.stdout)
        assert 0 < report["restored"]["patches"] <= 10
        assert [(each["address"], each["bytes"]) for each in report["left"]] == [(value + 2, 8), (idle, 1)]
        process.stdin.write(b".")
        assert process.stdout.readline() == b"2a\n"
        again = run_gilk("restore", str(process.pid))
        assert f"patches: 8 bytes at {value + 2:#x} differ, not by gilk: left\n" in again.stdout
        process.stdin.close()
    assert process.returncode == 0
