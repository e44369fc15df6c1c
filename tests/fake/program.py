# SPDX-License-Identifier: LGPL-2.1-or-later
"""A program in memory: an address space, threads with registers, and an emulator that executes them on demand.

Threads take turns, each for so many instructions, or until it enters the kernel to wait. Only the test makes things
happen: nothing is concurrent, nothing depends on time, and every run is the same.
"""

from __future__ import annotations

import errno
import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gilk.targets.base import Loaded
from gilk.targets.ptrace import Registers
from tests.fake.emulator import Emulator
from tests.fake.kernel import Files
from tests.fake.loading import load, read
from tests.fake.space import PAGE, Backing, Region, Space

_STACKS, _STACK = 0x7FFD_0000_0000, 1 << 20
_BLOCKS = 0x7F80_0000_0000  # the memory that FS points to
_EXIT = 0x7F90_0000_0000  # the return address of a thread's function
_EXIT_CODE = bytes.fromhex("4889c7 b83c000000 0f05")  # mov rdi, rax; mov eax, 60; syscall
_TURN = 97  # instructions; prime, so that threads meet in many ways
_LONG = 1 << 20  # instructions, enough for a program to reach its end or a wait
_GETPID, _EXIT_ONE, _YIELD, _GETTID, _FUTEX, _EXIT_ALL, _FORK, _READ_MEMORY = 39, 60, 24, 186, 202, 231, 57, 310
_IOVEC = struct.Struct("<2Q")
_PID = 4_190_000  # above the numbers of systems; fixed, as compiled code is kept by it
_APART = 1000  # between the process numbers of a process and its next child


@dataclass
class Task:
    """A thread. ``vectors`` is the state that the emulator keeps for it; ``result`` is its exit status."""

    tid: int
    registers: Registers
    vectors: Any
    rounds: int = 0
    result: int | None = None


class Program:
    """A program made of the files ``paths``, the program itself first; its first thread is at its entry. After
    count(), ``executed`` has how often each instruction of the files was executed."""

    def __init__(self, *paths: Path, space: Space | None = None, pid: int = _PID) -> None:
        self.space = space or Space()
        self.files = Files()
        self.emulator = Emulator(self.space, self._call)
        self.pid = pid
        self.tasks: dict[int, Task] = {}
        self.ended: dict[int, Task] = {}
        self.children: list[Program] = []
        self.executed: Counter[int] = Counter()
        self._current: Task | None = None
        self._through = True
        self.stalled: set[int] = set()  # threads that get no processor
        self.loaded: tuple[Loaded, ...] = ()
        if space is None:
            self.loaded = load(self.space, paths)
            exit_page = Backing.anonymous(PAGE)
            exit_page.content[: len(_EXIT_CODE)] = _EXIT_CODE
            self.space.add(Region(_EXIT, _EXIT + PAGE, "r-xp", exit_page))
            self._begin(read(paths[0]).entry + self.loaded[0].bias)

    def at(self, name: str) -> int:
        """The address of a symbol of the files."""
        found = ((read(one.path).symbols.get(name), one.bias) for one in self.loaded)
        return next(at + bias for at, bias in found if at is not None)

    def word(self, name: str) -> int:
        return int.from_bytes(self.space.read(self.at(name), 8), "little")

    def spawn(self, function: str, argument: int = 0) -> Task:
        """Start a thread that calls a function of the program, and ends with the function's result."""
        return self._begin(self.at(function), argument, _EXIT)

    def _begin(self, at: int, argument: int = 0, returns: int = 0) -> Task:
        tid = self.pid + len(self.tasks) + len(self.ended)
        top, block = _STACKS + 2 * _STACK * (tid - self.pid + 1), _BLOCKS + PAGE * (tid - self.pid)
        path = "[stack]" if tid == self.pid else ""
        self.space.add(Region(top - _STACK, top, "rw-p", Backing.anonymous(_STACK, path)))
        self.space.add(Region(block, block + PAGE, "rw-p", Backing.anonymous(PAGE)))
        registers = Registers(rip=at, rdi=argument, rsp=top - 64, fs_base=block, eflags=0x202, cs=0x33, ss=0x2B)
        registers.orig_rax = (1 << 64) - 1
        if returns:
            registers.rsp -= 8
            self.space.write(registers.rsp, returns.to_bytes(8, "little"))
        task = self.tasks[tid] = Task(tid, registers, self.emulator.pristine)
        return task

    # Running.

    def step(self, task: Task, instructions: int = 1, through: bool = True) -> None:
        """Let one thread go on for so many instructions, unless it ends before; if not ``through``, only up to where
        it lets others go first."""
        if not instructions or task.tid in self.stalled:
            return
        self._current, self._through = task, through
        task.vectors = self.emulator.run(task.registers, task.vectors, instructions)
        self._current = None

    def turn(self, instructions: int = _TURN) -> None:
        """Let each thread go on for so many instructions."""
        for task in list(self.tasks.values()):
            if task.tid in self.tasks:
                self.step(task, instructions)

    def rounds(self, number: int = 1) -> None:
        """Let each thread go on until it has waited so often."""
        for task in list(self.tasks.values()):
            until = task.rounds + number
            while task.tid in self.tasks and task.rounds < until:
                self.step(task, _LONG, through=False)

    def finish(self) -> int:
        """Let all threads come to their end. Returns the result of the first thread."""
        while self.tasks:
            self.turn()
        result = self.ended[self.pid].result
        assert result is not None
        return result

    def end(self) -> None:
        """Kill the program."""
        self.ended |= self.tasks
        self.tasks = {}
        self.space.gone = True

    def count(self) -> None:
        """Count, from now on, the executed instructions of the program's own code."""
        for one in self.space.regions:
            if "x" in one.rights and one.backing.inode and not one.mapping.ours:
                self.emulator.watch(one.start, one.end, self._note)

    def _note(self, address: int) -> None:
        self.executed[address] += 1

    def watch(self, name: str, register: str) -> list[int]:
        """A list that gets the value of ``register`` whenever the function ``name`` is entered, from now on."""
        found: list[int] = []
        at = self.at(name)
        self.emulator.watch(at, at + 1, lambda _: found.append(self.emulator.register(register)))
        return found

    # The program's system calls.

    def _call(self, registers: Registers) -> bool:
        """Carry out a system call. Returns whether the thread goes on at once."""
        task, number, argument = self._current, registers.rax, registers.rdi
        assert task is not None
        registers.rax = 0
        if number in (_EXIT_ONE, _EXIT_ALL):
            task.result = argument
            self.ended[task.tid] = self.tasks.pop(task.tid)
            if number == _EXIT_ALL or not self.tasks:
                self.end()
            return False
        if number in (_YIELD, _FUTEX):
            task.rounds += number == _YIELD
            return self._through and number == _YIELD
        if number == _FORK:
            registers.rax = self._fork(task, registers).pid
            return True
        if number == _READ_MEMORY:
            registers.rax = self._read_memory(registers) & (1 << 64) - 1
            return True
        numbers = {_GETPID: self.pid, _GETTID: task.tid}
        assert number in numbers, f"system call {number}"
        registers.rax = numbers[number]
        return True

    def _read_memory(self, registers: Registers) -> int:
        """process_vm_readv(2) on the program itself: copy memory from one place to another."""
        (to, size), (source, _) = (_IOVEC.unpack(self.space.read(at, 16)) for at in (registers.rsi, registers.r10))
        found = self.space.some(source, size)
        self.space.write(to, found)
        return len(found) or -errno.EFAULT

    def _fork(self, task: Task, registers: Registers) -> Program:
        child = Program(space=self.space.forked(), pid=self.pid + _APART * (len(self.children) + 1))
        child.loaded = self.loaded
        own = registers.copy()
        own.rip, own.rax = registers.rcx, 0
        child.tasks[child.pid] = Task(child.pid, own, task.vectors)
        self.children.append(child)
        return child
