# SPDX-License-Identifier: LGPL-2.1-or-later
"""Semaphores as the process and its children see them: raised once for each listener, and lowered however the
listener ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import gilk
from gilk.session.session import Session
from tests.behaviour.harness import leftovers, wait_for
from tests.programs.build import compile_text
from tests.targets.test_restore import abandon

#: Forks a child for every line of input, and prints the child's number. All end when the input does.
PROGRAM = r"""
#include <stdio.h>
#include <unistd.h>

volatile unsigned short counters[2] __attribute__((section(".probes"))) = { 0, 3 };

__attribute__((noinline, noclone)) long hot(long x) { __asm__ volatile("" ::: "memory"); return x + counters[0]; }

int main(void)
{
	char line[8];
	int forked;
	printf("%p\n", (void *)counters);
	fflush(stdout);
	while (read(0, line, 1) == 1) {
		hot(1);
		forked = fork();
		if (!forked) {
			for (;;) pause();
		}
		printf("%d\n", forked);
		fflush(stdout);
	}
	return 0;
}
"""


@dataclass
class Family:
    """A process, the address of its counters, and its children."""

    process: subprocess.Popen[str]
    address: int
    path: str
    children: list[int]

    def fork(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("f")
        self.process.stdin.flush()
        self.children.append(int(self.process.stdout.readline()))

    def counters(self, number: int = 0) -> list[int]:
        """The value of a counter in each process, the parent first."""
        return [self._value(pid, number) for pid in (self.process.pid, *self.children)]

    def _value(self, pid: int, number: int) -> int:
        with open(f"/proc/{pid}/mem", "rb") as memory:
            memory.seek(self.address + 2 * number)
            return int.from_bytes(memory.read(2), "little")

    def set(self, pid: int, value: int) -> None:
        with open(f"/proc/{pid}/mem", "r+b") as memory:
            memory.seek(self.address)
            memory.write(value.to_bytes(2, "little"))


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    program = compile_text(tmp_path, "listened", PROGRAM, "-O1")
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    family = Family(process, int(process.stdout.readline(), 16), str(program), [])
    try:
        yield family
    finally:
        for pid in (*family.children, process.pid):
            subprocess.run(["kill", "-9", str(pid)], check=True)
        process.communicate()


def test_a_forked_child_keeps_the_semaphore_counts_of_the_fork(family: Family) -> None:
    """A child loses these listeners when they leave, but no others: if somebody else has raised its counter, that
    stays."""
    counter = (family.address, family.path)
    with gilk.attach(family.process.pid) as target, Session(target.process) as session:
        session.insert("hot:entry", "count")
        keeper = target.process.keeper
        family.fork()
        first = target.process.raise_semaphores([counter])
        family.fork()
        second = target.process.raise_semaphores([counter])
        family.fork()
        assert family.counters() == [2, 0, 1, 2]
        family.set(family.children[0], 7)
        keeper.lower_semaphores(second)
        assert family.counters() == [1, 7, 1, 1]
        third = target.process.raise_semaphores([counter])
        keeper.lower_semaphores(first)
        assert family.counters() == [1, 7, 0, 0]
        keeper.lower_semaphores(first)
        keeper.lower_semaphores(third)
        assert family.counters() == [0, 7, 0, 0]
        target.process.raise_semaphores([counter, counter])
        family.fork()
        assert family.counters() == [2, 7, 0, 0, 2]
    assert session.restored
    assert family.counters() == [0, 7, 0, 0, 0]
    assert [leftovers(pid) for pid in (family.process.pid, *family.children)] == [[]] * 5


def test_semaphores_that_do_not_exist_are_not_raised(family: Family) -> None:
    with gilk.attach(family.process.pid) as target, Session(target.process):
        elsewhere = [(family.address, sys.executable), (0x1000, family.path), (1 << 46, family.path)]
        assert target.process.raise_semaphores(elsewhere) == []
        assert family.counters() == [0]


LISTENER = """
import sys, time
import gilk
target = gilk.attach(int(sys.argv[1]))
session = target.session()
session.insert("hot:entry", "count")
target.process.raise_semaphores(COUNTERS)
print(target.process.keeper.pid, flush=True)
time.sleep(600)
"""


def test_restore_lowers_semaphores_that_were_left_raised(family: Family) -> None:
    """This holds for the process that is restored, and for its child when that is restored."""
    first, second = (family.address, family.path), (family.address + 2, family.path)
    abandon(family.process.pid, LISTENER.replace("COUNTERS", repr([first, first, second])))
    family.fork()
    assert (family.counters(0), family.counters(1)) == ([2, 2], [4, 4])
    gilk.restore(family.process.pid)
    assert wait_for(lambda: (family.counters(0), family.counters(1)) == ([0, 2], [3, 4]))
    gilk.restore(family.process.pid)
    gilk.restore(family.children[0])
    assert (family.counters(0), family.counters(1)) == ([0, 0], [3, 3])
