# SPDX-License-Identifier: LGPL-2.1-or-later
"""The hosts for which C of the runtime is compiled here, and the controls of the host of tests (native/host/test.h)."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gilk.toolchain.compilers import NATIVE, compiler

#: Options for each host. In a process nothing is linked; here the C library answers questions about processes.
HOSTS: Final = {"process": ("-nostdlib",), "test": ("-DGILK_HOST_TEST", "-D_GNU_SOURCE=")}
#: As in the kernel, per-processor words change without the lock prefix, so there must be a single thread.
ALONE: Final = (*HOSTS["test"], "-DGILK_HOST_ONE_PROCESSOR")
WAITS = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_uint32), ctypes.c_uint32, ctypes.c_long)
EVER = (1 << 64) - 1


class TestHost(ctypes.Structure):
    """struct host_test."""

    __test__ = False
    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("clock", "tick", "thread_time", "lost", "lost_size")),
        *((name, ctypes.c_uint64) for name in ("asked", "refuse_first", "refuse_last")),
        ("first", ctypes.c_void_p),
        ("on_wait", WAITS),
        *((name, ctypes.c_uint32) for name in ("processor", "waits", "wakes", "signals")),
        *((name, ctypes.c_uint32) for name in ("signal_pid", "signal_tid", "signal_number", "reserved")),
    ]

    @staticmethod
    def of(library: ctypes.CDLL) -> TestHost:
        return TestHost.in_dll(library, "host_test")

    def reset(self) -> None:
        ctypes.memset(ctypes.byref(self), 0, ctypes.sizeof(self))
        self.clock = self.tick = 1

    @contextmanager
    def without_room(self, first: int = 1, last: int = EVER) -> Iterator[None]:
        """In the block, refuse requests for room, from the ``first`` to the ``last``."""
        self.asked, self.refuse_first, self.refuse_last = 0, first, last
        yield
        self.refuse_first = self.refuse_last = 0

    @contextmanager
    def without(self, address: int, size: int) -> Iterator[None]:
        """In the block, treat some memory as lost."""
        self.lost, self.lost_size = address, size
        yield
        self.lost_size = 0

    @contextmanager
    def stopped(self, clock: int) -> Iterator[None]:
        """In the block, the clock stands still at this time."""
        before, self.clock, self.tick = self.clock, clock, 0
        yield
        self.clock, self.tick = before, 1


def build(sources: list[Path], name: str, *options: str, native: Path = NATIVE) -> Path:
    """Compile them to ``name``, with warnings taken for errors."""
    output = Path(tempfile.mkdtemp(prefix="gilk-test-")) / name
    command = [*compiler(), *options, "-Werror", "-I", str(native), *map(str, sources), "-o", str(output)]
    subprocess.run(command, check=True)
    return output
