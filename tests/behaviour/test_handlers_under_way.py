# SPDX-License-Identifier: LGPL-2.1-or-later
"""A handler that runs while code changes sees the original address of the instruction that was interrupted, whenever it
looks: the program's own handler compares, and returns to another instruction of the same block."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import gilk
from tests.behaviour.harness import differences, leftovers
from tests.programs.build import compile_text

#: The handler tells that it runs, and looks at the address when it has read a byte. The faulting instruction is the
#: second one of its block, which a jump of five bytes displaces; no label and no constant address leads there.
PROGRAM = r"""
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>
#include <unistd.h>
long faulting(const long *where);
extern char block[];
static volatile long size = 3; /* bytes of each instruction */
__asm__(".text\n.globl faulting\n.type faulting,@function\nfaulting:\n"
	"\tmov $-7, %rax\n\ttest %rdi, %rdi\n\tjnz block\n\tmov $-9, %rax\n"
	"block:\n\tmov %rdi, %rcx\n\tmov (%rdi), %rax\n\tmov %rcx, %rdx\n\tmov %rcx, %rdx\n\tmov %rcx, %rdx\n\tret\n"
	".size faulting,.-faulting\n");
__attribute__((noipa)) int other(int x) { return x + 1; }
static void on_fault(int number, siginfo_t *info, void *raw)
{
	greg_t *rip = &((ucontext_t *)raw)->uc_mcontext.gregs[REG_RIP];
	char byte;

	(void)number, (void)info;
	if (write(1, "handling\n", 9) != 9 || read(0, &byte, 1) != 1)
		_exit(2);
	dprintf(1, *rip == (greg_t)(block + size) ? "right\n" : "wrong: %#llx\n", *rip);
	*rip = (greg_t)(block + 2 * size);
}
int main(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	char byte;

	sigaction(SIGSEGV, &action, NULL);
	while (read(0, &byte, 1) == 1)
		dprintf(1, "%ld %d\n", faulting(NULL), other(1));
	return 0;
}
"""


class Handling:
    """The running PROGRAM. While its handler waits, `while_handling` makes a change; then the handler finds all right."""

    def __init__(self, directory: Path) -> None:
        program = compile_text(directory, "handling", PROGRAM, "-O1")
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def _send(self) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"x")

    def _line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().decode()

    def while_handling(self, change: Callable[[], object]) -> None:
        self._send()
        assert self._line() == "handling\n"
        change()
        self._send()
        assert (self._line(), self._line()) == ("right\n", "-9 2\n"), self.process.poll()


@pytest.fixture
def handling(tmp_path: Path) -> Iterator[Handling]:
    made = Handling(tmp_path)
    with made.process:
        yield made
        assert not leftovers(made.process.pid) and not differences(made.process.pid)
        made.process.kill()


def test_the_first_instruments_come_while_a_handler_runs(handling: Handling) -> None:
    """The handler had no instrument at its entry, so there is no note on its frame."""
    with gilk.attach(handling.process.pid) as target, target.session() as session:
        handling.while_handling(lambda: session.insert("faulting:blocks", gilk.count))
        handling.while_handling(lambda: None)
        assert session.counts()["handling:faulting:@0:pre"] == 1


def test_further_instruments_come_and_go_while_a_handler_runs(handling: Handling) -> None:
    """First its instruction is displaced, then it is displaced by another patch, and at last by none."""
    with gilk.attach(handling.process.pid) as target, target.session() as session:
        session.insert("other:entry", gilk.count)
        probes: list[gilk.Probe] = []
        handling.while_handling(lambda: probes.extend(session.insert("faulting:blocks", gilk.count)))
        handling.while_handling(lambda: probes.extend(session.insert("faulting:blocks", gilk.stamp)))
        handling.while_handling(lambda: session.remove(probes))
        handling.while_handling(lambda: session.insert("faulting:blocks", gilk.count))
        assert session.counts()["handling:other:entry"] == 4


def test_the_session_begins_and_ends_while_a_handler_runs(handling: Handling) -> None:
    def session() -> None:
        with gilk.attach(handling.process.pid) as target, target.session() as session:
            session.insert("*:blocks", gilk.count)

    for _ in range(2):
        handling.while_handling(session)
