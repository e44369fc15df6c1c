# SPDX-License-Identifier: LGPL-2.1-or-later
"""Why a process is left alone, as errors that a user understands."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterable, Iterator

from gilk.errors import MemoryTaken, TargetError
from gilk.target.maps import DATA_NAME, occupied, read_maps
from gilk.target.memory import Memory
from gilk.target.world import Thread
from gilk.target.writer import Mismatch


def check_gs(pid: int, memory: Memory, threads: Iterable[Thread]) -> None:
    """Raises TargetError `gs-in-use` when a thread's GS base is somebody else's."""
    if any(_gs_taken(pid, memory, thread.registers.gs_base) for thread in threads):
        raise TargetError(
            "gs-in-use",
            "the process uses the GS base itself, or another gilk session is attached to it",
            "gilk keeps per-thread state there; end the other session first",
        )


def _gs_taken(pid: int, memory: Memory, base: int) -> bool:
    """It points somewhere, and not into what `gilk restore` has left behind."""
    for mapping in read_maps(pid) if base else ():
        if mapping.start <= base < mapping.end and mapping.path.startswith(DATA_NAME):
            return any(memory.read(mapping.start, 8))
    return base != 0


def check_free(pid: int, start: int, end: int) -> None:
    """Raises MemoryTaken when the process has mapped something there meanwhile."""
    if not occupied(read_maps(pid), growth=False).free(start, end):
        raise taken(pid)


def taken(pid: int) -> MemoryTaken:
    return MemoryTaken("no-room", f"process {pid} has mapped memory where patches were to lie", "try again")


@contextlib.contextmanager
def expecting(pid: int) -> Iterator[None]:
    """Raises TargetError `code-changed` for a Mismatch."""
    try:
        yield
    except Mismatch as mismatch:
        raise TargetError(
            "code-changed",
            f"the code at {mismatch.args[0]:#x} of process {pid} is not what its file says",
            "another tool has patched it, or it was loaded from a different file",
        ) from None


@contextlib.contextmanager
def refusable(pid: int) -> Iterator[None]:
    """System calls in the target may fail there: raises TargetError `refused-by-kernel`, `no-such-process`."""
    try:
        yield
    except ProcessLookupError:
        raise TargetError("no-such-process", f"process {pid} has ended") from None
    except OSError as error:
        raise TargetError(
            "refused-by-kernel",
            f"process {pid} may not map what gilk needs: {error.strerror}",
            "with CAP_SYS_ADMIN, gilk suspends seccomp filters meanwhile" if error.errno == errno.EPERM else "",
        ) from None
