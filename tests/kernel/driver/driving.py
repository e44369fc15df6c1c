# SPDX-License-Identifier: LGPL-2.1-or-later
"""A kernel in a virtual machine with the driver in it, and a program there that makes system calls."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gilk.lab import VM
from gilk.targets.kernel import driver_build, driver_load
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import DriverUnit, Verdict
from gilk.toolchain.compilers import NATIVE
from gilk.toolchain.kernel_instrument import run_kbuild
from tests.kernel.driver.handmade import Function

SOURCES = Path(__file__).parent / "guest"
NUMBERS = {"getpid": 39, "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108, "getppid": 110, "getpgrp": 111}
LIMIT = 120.0  # seconds that a command there may take


#: Words in lines that tell of an error; lockdep's have "possible", or "inconsistent lock state" below a WARNING.
_COMPLAINTS = ("WARNING", "BUG", "Oops", "self-detected stall", "ftrace_bug", "general protection", "possible recurs")


def complaints(vm: VM) -> str:
    """The lines of the kernel's log that tell of an error."""
    status, said, _ = vm.run(["dmesg"], timeout=LIMIT)
    assert status == 0
    return "\n".join(line for line in said.decode().splitlines() if any(word in line for word in _COMPLAINTS))


class Guest:
    """The kernel in the virtual machine. `text_at_start` is the core text before the driver has written anything but
    its self test."""

    def __init__(self, vm: VM, place: Path) -> None:
        self.vm, self.link = vm, vm.link
        self.release = vm.kernel.release
        self._place = place
        self.program = self.compiled("calls")
        self.module = driver_build.build(vm.kernel.headers)
        self.symbols = self._symbols()
        self.text_at_start = self.text(self.symbols["_stext"], self.symbols["_etext"] - self.symbols["_stext"])

    def compiled(self, name: str) -> Path:
        """The compiled program of guest/NAME.c."""
        path = self._place / name
        if not path.exists():
            include = ["-I", str(NATIVE / "abi")]
            source = str(SOURCES / f"{name}.c")
            subprocess.run(["cc", "-O2", "-static", "-pthread", *include, "-o", path, source], check=True)
        return path

    def module_of(self, sources: Path, place: Path) -> Path:
        """The kernel module whose sources are a directory called as it is, compiled in a copy below ``place``."""
        copy = place / sources.name
        shutil.copytree(sources, copy)
        done = run_kbuild(self.vm.kernel.headers, copy)
        assert done.returncode == 0, done.stderr
        return copy / f"{sources.name}.ko"

    def complaints(self) -> str:
        """The lines of the kernel's log that tell of an error."""
        return complaints(self.vm)

    def _symbols(self) -> dict[str, int]:
        rows = (line.split() for line in self.link.read_file("/proc/kallsyms").decode().splitlines())
        found: dict[str, int] = {}
        for row in rows:
            found.setdefault(row[2], int(row[0], 16))
        return found

    def load(self, *parameters: str) -> None:
        driver_load.load(self.link, self.module, parameters)
        self.symbols = self._symbols()

    def unload(self) -> None:
        self.link.close_driver()
        driver_load.unload(self.link)

    def text(self, address: int, size: int) -> bytes:
        return self.link.read_core([(address, size)])[0]

    def whole_text(self) -> bytes:
        return self.text(self.symbols["_stext"], len(self.text_at_start))

    def changed(self) -> list[int]:
        """The addresses of core text whose byte is not what it was at the start."""
        now, before, start = self.whole_text(), self.text_at_start, self.symbols["_stext"]
        return [start + i for i, (a, b) in enumerate(zip(before, now, strict=True)) if a != b] if now != before else []

    def function(self, name: str) -> Function:
        return Function.read(self.text, self.symbols[name])

    def run(self, *command: str) -> str:
        status, out, err = self.vm.run(command, timeout=LIMIT)
        assert status == 0, f"{command}: {status}, {err.decode()}"
        return out.decode().strip()

    def mount(self, kind: str, place: str) -> None:
        """Mount a file system, unless it is mounted already."""
        if f" {place} {kind} ".encode() not in self.link.read_file("/proc/mounts"):
            self.run("mount", "-t", kind, kind, place)

    def write(self, path: str, text: str) -> None:
        """Append a line to a file, without a shell, which makes system calls of its own."""
        command = ["dd", f"of={path}", "oflag=append", "conv=notrunc", "status=none"]
        status, _, err = self.vm.run(command, text.encode() + b"\n", timeout=LIMIT)
        assert status == 0, f"{path}: {err.decode()}"

    def module_symbol(self, name: str) -> int:
        """The address of a symbol of a module that was loaded since; 0 if there is none."""
        return self._symbols().get(name, 0)

    def call(self, name: str, count: int, threads: int = 1) -> None:
        self.run(str(self.program), str(NUMBERS[name]), str(count), str(threads))

    def counted(self, driver: Driver, units: Sequence[DriverUnit], call: str, count: int) -> list[int]:
        """Apply the units, make the calls, and undo. Returns by how much each of the client's counters has risen."""
        with self.text_untouched():
            assert [each.verdict for each in driver.apply(units)] == [Verdict.OK] * len(units)
            for unit in units:
                if unit.new:
                    assert self.text(unit.address, 1) == unit.new[:1]
            amount = driver.status().counters
            before = driver.read(0, amount)
            self.call(call, count)
            after = driver.read(0, amount)
            undone = driver.undo([unit.number for unit in units])
            assert [each.verdict for each in undone] == [Verdict.OK] * len(units)
        self.call(call, 10)
        assert driver.read(0, amount) == after
        return [b - a for a, b in zip(before, after, strict=True)]

    @contextmanager
    def text_untouched(self) -> Iterator[None]:
        """Assert that the core text is the same after the block as before."""
        before = self.whole_text()
        yield
        assert self.whole_text() == before
