# SPDX-License-Identifier: LGPL-2.1-or-later
"""Hostile programs, run by another user than the tracer if the tests may choose that."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.programs.build import compile_to

HERE = Path(__file__).resolve().parent
NOBODY = 65534
#: For Popen: if root runs the tests, nobody runs the targets.
AS_ANOTHER = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


@contextmanager
def open_place() -> Iterator[Path]:
    """A directory that every user can look into, as into all above it."""
    with tempfile.TemporaryDirectory(prefix="hostile-", dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def built(place: Path, name: str) -> Path:
    """The built program of that name in this directory."""
    flags = ("-O2", "-fPIE", "-pie", "-fno-omit-frame-pointer")
    program = compile_to(place / name, [HERE / f"{name}.c"], flags)
    program.chmod(0o755)
    return program


class Partner:
    """A hostile program that has said that it is ready."""

    def __init__(self, *command: str | Path) -> None:
        words = [str(word) for word in command]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", env={}, **AS_ANOTHER
        )
        assert self.line() == "ready"

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        """The next line that the program prints; waits for it."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().rstrip("\n")

    def __enter__(self) -> Partner:
        return self

    def __exit__(self, *_: object) -> None:
        """End the program, which ends by itself unless something has been done to it."""
        assert self.process.stdin is not None and self.process.stdout is not None
        with self.process.stdin, self.process.stdout:
            self.process.stdin.close()
            try:
                self.process.wait(60)
            finally:
                self.process.kill()
                self.process.wait()
