# SPDX-License-Identifier: LGPL-2.1-or-later
"""The reasons for which a process is left alone, as errors that a user understands."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterable, Iterator
from pathlib import Path

from gilk.errors import MemoryTaken, OutOfMemory, TargetError
from gilk.targets.another_program import program_gone
from gilk.targets.maps import DATA_NAME, Mapping, holders, occupied
from gilk.targets.memory import Memory
from gilk.targets.sharing import can_be_told
from gilk.targets.thread import Thread
from gilk.targets.traced import Traced
from gilk.targets.writer import Mismatch


def check_gs(process: Traced, threads: Iterable[Thread]) -> None:
    """Check that no thread has a GS base that belongs to others: to the program, or to a session in force. A GS base
    that `gilk restore` has left behind is accepted. Raises TargetError `gs-in-use`."""
    pid, maps = process.pid, process.maps
    for base in {thread.registers.gs_base for thread in threads} - {0}:
        session = _session_at(maps(), base)
        if session is None:
            raise TargetError(
                "gs-in-use",
                f"process {pid} uses the GS base itself",
                "gilk keeps per-thread state there, as few programs do",
            )
        if any(process.memory.read(session.start, 8)):
            raise _in_session(pid, session.path.removeprefix(DATA_NAME).partition("-")[0])


def _in_session(pid: int, owner: str) -> TargetError:
    """The error about another session in the process. ``owner``: the pid of the process that began it."""
    if not Path(f"/proc/{owner}").exists():
        return TargetError(
            "gs-in-use",
            f"process {pid} still has the memory of a gilk session that has ended",
            f"`gilk aspect list` says whether it is a weaving that stays; "
            f"`gilk restore {pid}` takes out what there is of it, and lets others in",
        )
    return TargetError(
        "gs-in-use",
        f"process {pid} is in a gilk session already, that of process {owner}",
        f"end that session first, with `gilk aspect remove {owner}` if it weaves; "
        "sessions share a process with others of the same user only, and weavings with nobody",
    )


def _session_at(maps: Iterable[Mapping], base: int) -> Mapping | None:
    """The mapping of a session's data memory, if ``base`` points into one; else None."""
    mappings = (mapping for mapping in maps if mapping.start <= base < mapping.end)
    return next((mapping for mapping in mappings if mapping.path.startswith(DATA_NAME)), None)


def check_alone(pid: int, name: str) -> None:
    """Check that no other process shares the memory of this one; it would have the memory object ``name`` too, which
    was mapped in this stop. This search takes long, and is made only where sharing.py cannot tell. Raises TargetError
    `shared-memory`."""
    others = [] if can_be_told() else [other for other in holders(name) if other != pid]
    if others:
        raise TargetError(
            "shared-memory",
            f"process {others[0]} executes the memory of process {pid}",
            "without kcmp(2) gilk cannot find all processes that have to be stopped with it",
        )


def check_private(pid: int, shared: Mapping | None) -> None:
    """Check that there is no mapping which must not be written to. ``shared``: one, or None. Raises TargetError
    `shared-code`."""
    if shared is not None:
        raise TargetError(
            "shared-code",
            f"process {pid} has its code of {shared.path} mapped shared: what is written there is written to the file",
            "leave that image out",
        )


def check_free(process: Traced, start: int, end: int) -> None:
    """Check that the process has mapped nothing there meanwhile. Raises MemoryTaken."""
    if not occupied(process.maps(), growth=False).free(start, end):
        raise taken(process.pid)


def taken(pid: int) -> MemoryTaken:
    return MemoryTaken("no-room", f"process {pid} has mapped memory where patches were to lie", "try again")


@contextlib.contextmanager
def expecting(pid: int, memory: Memory) -> Iterator[None]:
    """A context that turns a Mismatch into TargetError `code-changed`; into `no-such-process` if it is because the
    program has gone: it has no code then, and ``memory`` reads nothing (proc(5))."""
    try:
        yield
    except Mismatch as mismatch:
        if _is_gone(memory, mismatch.args[0]):
            raise program_gone(pid) from None
        raise TargetError(
            "code-changed",
            f"the code at {mismatch.args[0]:#x} of process {pid} is not what its file says",
            "another tool has patched it, or it was loaded from a different file",
        ) from None


def _is_gone(memory: Memory, address: int) -> bool:
    try:
        return not memory.read(address, 1)
    except OSError:
        return False  # only the code there has gone


#: EAGAIN comes where all mappings are locked in memory (mlockall(2)) and the limit on locked memory is reached.
_NO_MEMORY = (errno.ENOMEM, errno.EAGAIN)
_HINTS = {
    errno.EPERM: "with CAP_SYS_ADMIN, gilk suspends seccomp filters meanwhile",
    errno.ENOMEM: "its addresses may be limited (ulimit -v): prlimit --as=unlimited --pid PID, or ulimit -v unlimited",
    errno.EAGAIN: "what it may keep in memory is limited (ulimit -l): prlimit --memlock=unlimited --pid PID",
}


@contextlib.contextmanager
def refusable(pid: int) -> Iterator[None]:
    """A context that turns errors of the target's system calls into TargetError `refused-by-kernel`,
    `no-such-process`."""
    try:
        yield
    except ProcessLookupError:
        raise program_gone(pid) from None
    except OSError as error:
        raise (OutOfMemory if error.errno in _NO_MEMORY else TargetError)(
            "refused-by-kernel",
            f"process {pid} cannot map the memory that gilk needs: {error.strerror}",
            _HINTS.get(error.errno or 0, ""),
        ) from None
