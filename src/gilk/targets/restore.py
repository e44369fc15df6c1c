# SPDX-License-Identifier: LGPL-2.1-or-later
"""Puts a process right after both gilk and its keeper were killed.

This needs nothing of what they knew: every byte of code that differs from the image's file, and belongs to a jump to
gilk's memory (ours.py), is put back. All other bytes that differ were written by the program itself, or by a debugger,
and are reported. The mappings stay, for threads that may still be in them.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np

from gilk.errors import TargetError
from gilk.targets.apart import KEEPER
from gilk.targets.arena_parameters import ArenaWord
from gilk.targets.base import Loaded
from gilk.targets.exchanged import exchanged
from gilk.targets.maps import CODE_NAME, DATA_NAME, Mapping, read_maps
from gilk.targets.ours import led_to, written_by_us
from gilk.targets.process import Process, attach
from gilk.targets.program import name_of
from gilk.targets.remains import Remains
from gilk.targets.sharing import parent
from gilk.targets.stack_switching import switches_stacks
from gilk.targets.workspace import ARENA_SIZE, CODE_SIZE, MOST_ARENAS, TABLE_SIZE, TABLES
from gilk.toolchain.runtime import runtime
from gilk.values import dataclass


@dataclass(frozen=True)
class Stretch:
    """A stretch of code that differs from the image's file. ``original``: the file's bytes."""

    image: str
    address: int
    original: bytes


@dataclass(frozen=True)
class Restored:
    """``bytes``: the number of bytes of code that were put back, by image; ``left``: the stretches that others have
    written, which were left alone. ``waiting``: a thread, or a handler that waits, is still in gilk's memory, so that
    the process takes no other session."""

    bytes: dict[str, int]
    left: tuple[Stretch, ...] = ()
    waiting: bool = False


def restore(pid: int, force: bool = False) -> Restored:
    """Restore the code of a process. ``force``: let other sessions in, even if a thread or a handler that waits is
    still in gilk's memory; if it goes on there after another session, the program crashes. Raises TargetError
    `nothing-to-restore` when there is no trace of gilk in the process, `in-session` while a keeper is there that is
    going to restore it."""
    with attach(pid) as process:
        maps = process.maps()
        if not any(mapping.path.startswith(CODE_NAME) for mapping in maps):
            raise TargetError("nothing-to-restore", f"there is no trace of gilk in process {pid}")
        _check_abandoned(pid, {session_of(mapping) for mapping in maps if mapping.path.startswith(CODE_NAME)})
        copies = tuple(exchanged(read_maps(pid), process.files.extents))
        if copies:
            process.keeper.put_back(copies)
        found = [_stretches_of(process, loaded) for loaded in process.loaded()]
        ours = [stretch for mine, _ in found for stretch in mine]
        pieces = [(stretch.address, stretch.original) for stretch in ours]
        out = process.keeper.repair(pieces, _left_in(process))
        process.keeper.lower_abandoned()
        if out or force:
            _open_to_others(process)
        counts: dict[str, int] = {}
        for stretch in ours:
            counts[stretch.image] = counts.get(stretch.image, 0) + len(stretch.original)
        return Restored(counts, tuple(stretch for _, others in found for stretch in others), not out)


def _left_in(process: Process) -> Remains:
    """The remains of abandoned sessions in a process."""
    maps = process.maps()
    whole = [each.start for each in maps if each.path.startswith(CODE_NAME) and each.end - each.start == CODE_SIZE]
    tables = tuple(table for start in whole for table in _tables_in(process, start))
    return Remains(tuple(led_to(maps)), tables, TABLE_SIZE, switches_stacks(process))


def _tables_in(process: Process, code: int) -> list[int]:
    """The addresses of the tables that the runtimes of a session have been given, whose code is mapped at ``code``;
    none if they were given stacks of advice."""
    found = set()
    for arena in range(MOST_ARENAS):
        at = code + arena * ARENA_SIZE + runtime().symbols["gilk_params"]
        words = (ArenaWord.PLACES, ArenaWord.ADVICE)
        table, advice = (int.from_bytes(process.keeper.peek(at + word, 8), "little") for word in words)
        if advice:
            return []
        if table in (code + TABLES, code + TABLES + TABLE_SIZE):
            found.add(table)
    return sorted(found)


def _open_to_others(process: Process) -> None:
    """Clear the magic numbers in the memory that was left, so that another session may have the process. A thread in an
    old patch needs that memory, from which the end of another session would detach it. Memory that the program has made
    inaccessible stays as it is."""
    for mapping in process.maps():
        if mapping.path.startswith(DATA_NAME) and mapping.offset == 0:
            with contextlib.suppress(OSError):
                process.keeper.poke(mapping.start, bytes(8))


def is_kept(session: str) -> bool:
    """Whether the session of that name has a keeper."""
    return any(_keeps(int(entry.name), session) for entry in Path("/proc").iterdir() if entry.name.isdecimal())


def session_of(mapping: Mapping) -> str:
    """The name of the session that a mapping of code belongs to; it begins with the pid of its first client
    (workspace.py)."""
    return mapping.path.removeprefix(CODE_NAME).split()[0]


def _check_abandoned(pid: int, sessions: set[str]) -> None:
    """Raises TargetError `in-session` when one of the sessions has a keeper."""
    for name in sessions:
        if is_kept(name):
            raise TargetError(
                "in-session",
                f"process {pid} is in a session of gilk, which process {name.partition('-')[0]} began",
                "end that process: its keeper then puts the code back, even after a kill",
            )


def _keeps(pid: int, name: str) -> bool:
    """Whether a process is the keeper of a session: it has the session's memory open. If we may not look into it,
    because it is another user's, a keeper counts as the session's if its parent is the client that began the
    session."""
    try:
        if name_of(pid) != KEEPER:
            return False
        return any(f"{CODE_NAME}{name} " in f"{_link(fd)} " for fd in Path(f"/proc/{pid}/fd").iterdir())
    except PermissionError:
        return str(parent(pid)) == name.partition("-")[0]
    except OSError:
        return False  # the process has gone


def _link(fd: Path) -> str:
    try:
        return os.readlink(fd)
    except FileNotFoundError:
        return ""


def _stretches_of(process: Process, loaded: Loaded) -> tuple[list[Stretch], list[Stretch]]:
    """The stretches where executable memory differs from the image's file: those that gilk has written, and those that
    others have."""
    mine: list[Stretch] = []
    others: list[Stretch] = []
    image, ranges = process.image(loaded.path), led_to(process.maps())
    for mapping in process.maps():
        if not mapping.executable or not _of(mapping, loaded):
            continue
        content = process.keeper.peek(mapping.start, mapping.end - mapping.start)
        kept = image.read(mapping.start - loaded.bias, len(content))
        live = np.frombuffer(content, np.uint8)[: len(kept)]
        differ = live != np.frombuffer(kept, np.uint8)[: len(live)]
        ours = written_by_us(live, mapping.start, ranges)
        for rows, found in ((differ & ours, mine), (differ & ~ours, others)):
            for low, high in _stretches(np.flatnonzero(rows)):
                found.append(Stretch(loaded.name, mapping.start + low, kept[low:high]))
    return mine, others


def _of(mapping: Mapping, loaded: Loaded) -> bool:
    return loaded.start <= mapping.start < loaded.end and mapping.path.startswith("/")


def _stretches(rows: np.ndarray) -> list[tuple[int, int]]:
    if not len(rows):
        return []
    cuts = np.flatnonzero(np.diff(rows) > 1) + 1
    return [(int(part[0]), int(part[-1]) + 1) for part in np.split(rows, cuts)]
