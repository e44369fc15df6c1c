# SPDX-License-Identifier: LGPL-2.1-or-later
"""A program whose signal handlers switch stacks, and ways to interrupt it amid a patch: its context waits there."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import gilk
from gilk.targets import ptrace
from gilk.targets.maps import read_maps
from gilk.targets.memory import ProcessMemory
from tests.behaviour.harness import cpu, ended, leftovers, wait_for
from tests.programs.build import build, compile_text

PARKED, INCLUDED = Path(__file__).parents[1] / "programs" / "bare" / "parked.c", '#include "computing.h"\n'
#: The beginnings of instructions in patches: one reads where the thread's own data is, one adds to a counter, one moves
#: the stack pointer, one reserves the place of a record.
READS_OWNER, COUNTS, STEPS_OVER, RESERVES = map(bytes.fromhex, ("f3490fae", "6549ff", "488da424", "65480fb1"))
CALLS = b"\xe8"
BEGINS = {"count": READS_OWNER, "stamp": STEPS_OVER}
#: In place of what it includes. At 8 and at 11 are instructions of three bytes.
WORK = r"""
unsigned long work(int n, unsigned long a, unsigned long b);
__asm__(".text\n.type work, @function\nwork: mov %rsi, %rax\n"
        "0: lea 1(%rax, %rax, 2), %rax\nxor %rdx, %rax\nadd %rdx, %rax\ndec %edi\njnz 0b\nret\n.size work, . - work\n");
"""
TRAP = 1 << 8  # of the flags
STEPS = 100_000  # instructions within which each patch of a loop is executed


@contextmanager
def parked(path: Path | None = None, *words: object) -> Iterator[subprocess.Popen[bytes]]:
    command = [path or build("parked"), *map(str, words)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        try:
            assert heard(program) == b"ready\n"
            yield program
        finally:
            program.kill()


def heard(program: subprocess.Popen[bytes]) -> bytes:
    assert program.stdout
    return program.stdout.readline()


def tell(program: subprocess.Popen[bytes], letter: bytes) -> None:
    assert program.stdin
    program.stdin.write(letter)
    program.stdin.flush()


def signal_amid_a_patch(pid: int) -> None:
    """Send SIGUSR1 where a patch has stepped over the red zone and has not stepped back yet."""
    code = [range(m.start, m.end) for m in read_maps(pid) if "x" in m.permissions and "memfd:gilk" in m.path]
    ptrace.seize(pid)
    ptrace.call(ptrace.INTERRUPT, pid)
    os.waitpid(pid, ptrace.WALL)
    outside = ptrace.get_registers(pid)
    for _ in range(STEPS):
        ptrace.call(ptrace.SINGLESTEP, pid)
        assert os.WIFSTOPPED(os.waitpid(pid, ptrace.WALL)[1])
        now = ptrace.get_registers(pid)
        if not any(now.rip in each for each in code):
            outside = now
        elif now.rsp < outside.rsp - 128:
            return detach_with_signal(pid)
    raise AssertionError("no patch steps over the red zone")


def detach_with_signal(pid: int) -> None:
    """Let go of a process that was executed step by step, with SIGUSR1."""
    now = ptrace.get_registers(pid)
    now.eflags &= ~TRAP  # a pushf that was stepped over has saved it, and a popf taken it for the program's
    ptrace.set_registers(pid, now)
    ptrace.call(ptrace.DETACH, pid, 0, signal.SIGUSR1)


def signal_behind(pid: int, code: bytes, first: Callable[[], object] = lambda: None) -> None:
    """Send SIGUSR1 where the process has just executed an instruction of gilk's memory that begins with ``code``.
    ``first`` is called when the process stands still."""
    places = [range(m.start, m.end) for m in read_maps(pid) if "x" in m.permissions and "memfd:gilk" in m.path]
    ptrace.seize(pid)
    ptrace.call(ptrace.INTERRUPT, pid)
    os.waitpid(pid, ptrace.WALL)
    first()
    with ProcessMemory(pid) as memory:
        for _ in range(STEPS):
            before = ptrace.get_registers(pid).rip
            ptrace.call(ptrace.SINGLESTEP, pid)
            assert os.WIFSTOPPED(os.waitpid(pid, ptrace.WALL)[1])
            if any(before in each for each in places) and memory.some(before, len(code)) == code:
                return detach_with_signal(pid)
    raise AssertionError("no such instruction is executed")


def blocked_in_read(pid: int) -> bool:
    """Whether the process waits in read(2) of standard input (proc(5), /proc/PID/syscall)."""
    return Path(f"/proc/{pid}/syscall").read_text().startswith("0 0x0 ")


def computes_again(program: subprocess.Popen[bytes]) -> None:
    """Let the first context, which waits, go on, until it computes."""
    ticks = cpu(program.pid)
    tell(program, b"g")
    wait_for(lambda: cpu(program.pid) > ticks + 1)


def goes_on(program: subprocess.Popen[bytes]) -> None:
    """Let the first context, which waits, go on: it computes what it should until it is interrupted, and ends."""
    tell(program, b"g")
    os.kill(program.pid, signal.SIGUSR1)
    assert heard(program) == b"parked\n", ended(program)
    tell(program, b"e")
    assert program.wait() == 0


#: A function that saves registers, calls another one and has a loop.
DEEP = """
#include <gilk.h>
static unsigned long sums[64];
__attribute__((noinline)) static unsigned long sum(unsigned long from, unsigned long to)
{
    unsigned long all = 0, one;
    for (one = from; one < to; one++)
        all += one * (to ^ all);
    return all;
}
void deep(const struct gilk_regs *regs, unsigned iid)
{
    unsigned long a = regs->rax, b = sum(iid, 5), c = sum(b, b + 3);
    sums[a & 63] += a + b + c + sum(c, c + 2);
}
"""


def signal_inside(pid: int, steps: int) -> None:
    """Send SIGUSR1 to a process that has executed so many instructions of gilk's memory."""
    code = [range(m.start, m.end) for m in read_maps(pid) if "x" in m.permissions and "memfd:gilk" in m.path]
    inside = 0
    ptrace.seize(pid)
    ptrace.call(ptrace.INTERRUPT, pid)
    os.waitpid(pid, ptrace.WALL)
    for _ in range(STEPS):
        ptrace.call(ptrace.SINGLESTEP, pid)
        assert os.WIFSTOPPED(os.waitpid(pid, ptrace.WALL)[1])
        now = ptrace.get_registers(pid)
        is_inside = any(now.rip in each for each in code)
        inside += is_inside
        if is_inside and inside >= steps:
            return detach_with_signal(pid)
    raise AssertionError("the process does not come into gilk's memory")


def check_led_out(instrument: object, moments: Iterable[int], *words: object) -> None:
    """Interrupt a program after so many instructions of gilk's, for each of ``moments``, and end the session. The
    program, which is told ``words``, goes on rightly, and nothing is left."""
    with parked(None, *words) as program, gilk.attach(program.pid) as target:
        for steps in moments:
            with target.session() as session:
                session.insert("parked:work:blocks", instrument)
                signal_inside(program.pid, steps)
                assert heard(program) == b"parked\n"
            assert session.restored is True
            assert not session.notes, (steps, session.notes)
            assert leftovers(program.pid) == []
            tell(program, b"g")
        tell(program, b"e")
        os.kill(program.pid, signal.SIGUSR1)
        assert heard(program) == b"parked\n", ended(program)
        assert program.wait() == 0


def with_three_bytes(place: Path) -> Path:
    """The program `parked` with an instruction of three bytes at 8 and at 11 in the function that computes."""
    text = PARKED.read_text()
    assert INCLUDED in text
    return compile_text(place, "parked", text.replace(INCLUDED, WORK), "-O2", f"-I{PARKED.parents[1]}")
