# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs for tests of advice: each line of input starts a round, and each round answers with one line."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from gilk.session.advised_session import AdvisedSession
from gilk.session.advising import advice
from gilk.session.base import Probe
from gilk.targets.process import attach
from tests.programs.build import ROOM

ROUNDS = """
#include <stdio.h>
#define NOINLINE __attribute__((noinline, noclone))
%s
int main(void)
{
	char line[64];

	setvbuf(stdout, 0, _IOLBF, 0);
	while (fgets(line, sizeof line, stdin))
		one_round();
	return 0;
}
"""
_WAITING = """
#include <pthread.h>
#include <unistd.h>
static int ends[2], waits;
NOINLINE long waiter(long n) { char c; __atomic_store_n(&waits, 1, __ATOMIC_SEQ_CST); n += read(ends[0], &c, 1);
	__asm__ volatile(""); return n; }
%sstatic void *thread(void *n) { return (void *)%s((long)n); }
static void one_round(void)
{
	static pthread_t id;
	void *result;
	if (!waits) {
		if (pipe(ends) || pthread_create(&id, 0, thread, (void *)%d)) return;
		while (!__atomic_load_n(&waits, __ATOMIC_SEQ_CST)) usleep(1000);
		puts("waits");
		return;
	}
	if (write(ends[1], "x", 1) != 1) return;
	pthread_join(id, &result);
	waits = 0;
	printf("%%ld\\n", (long)result);
}
"""
#: Options for tests of returns; jumps to other functions have tests of their own.
OPTIONS = ("-O2", "-g", "-pthread", "-fno-optimize-sibling-calls")
TAILS = ("-O2", "-g", "-pthread", "-fno-inline", "-foptimize-sibling-calls")
COMPILERS = ("gcc", "clang")


def waiting(functions: str, called: str, given: int) -> str:
    """The source of a program whose first round has a thread call ``called`` with ``given``, until it waits in
    ``waiter``, which adds 1. The next round lets the thread go on, and prints the result. ``functions`` is C that
    may call ``waiter``."""
    return _WAITING % (functions, called, given)


def aspects(place: Path, text: str) -> Path:
    """Write a file of aspects, and return its path."""
    path = place / "woven.aspect"
    path.write_text(text)
    return path


def build(place: Path, source: str, *options: str, compiler: str = "gcc") -> Path:
    """Build a program from ``source``, which defines `static void one_round(void)`."""
    path, output = place / f"program.{'cpp' if compiler.endswith('++') else 'c'}", place / "program"
    path.write_text(ROUNDS % source)
    subprocess.run([compiler, ROOM, *(options or OPTIONS), "-o", output, path], check=True)
    return output


class Rounds:
    """A running program that answers rounds."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @property
    def pid(self) -> int:
        return self.process.pid

    def ask(self) -> str:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self) -> int:
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(60)


@contextlib.contextmanager
def rounds(path: Path, status: int = 0) -> Iterator[Rounds]:
    """Run a program, which must end with this status (Popen.wait)."""
    program = Rounds(path)
    try:
        yield program
        assert program.end() == status
    finally:
        program.process.kill()
        program.process.wait()
        for stream in (program.process.stdin, program.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                if stream is not None:
                    stream.close()


@contextlib.contextmanager
def session(pid: int) -> Iterator[AdvisedSession]:
    with attach(pid) as process, AdvisedSession(process, threads=256) as one:
        yield one


def jumps(program: Path, function: str, target: str) -> bool:
    """Whether objdump shows a jump from the function to the target."""
    said = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], capture_output=True, text=True, check=True)
    body = re.search(rf"<{function}>:\n(.*?)\n\n", said.stdout + "\n\n", re.DOTALL)
    return body is not None and re.search(rf"\tj\w+ .*<{re.escape(target)}>", body[1]) is not None


def after(one: AdvisedSession, function: str, body: str, parameters: str = "long n") -> tuple[Probe, ...]:
    text = f"long f(long r, {parameters}) {{ {body} }}"
    return one.advise(f"{function}:entry", advice(text, "f", f"long {function.split(':')[-1]}({parameters})", "after"))


def inplace(one: AdvisedSession, function: str, body: str) -> tuple[Probe, ...]:
    text = f"long f(long n) {{ {body} }}"
    return one.advise(f"{function}:entry", advice(text, "f", f"long {function.split(':')[-1]}(long n)"))
