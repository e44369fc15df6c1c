# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads /proc/PID/maps (proc(5)), and finds free room between mappings."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from gilk.errors import TargetError
from gilk.splice.allocator import PAGE, REACH, Occupied
from gilk.targets.alive import has_ended, of_memory, proc_link, thread_with_memory
from gilk.targets.kernel_threads import is_kernels_process
from gilk.targets.program import name_of
from gilk.targets.stat import CODE_START, HEAP_START, STACK_START, stat_of
from gilk.values import dataclass

#: Bytes that are left free for what may grow: the heap upwards, the main stack downwards.
_HEAP_GROWTH = 64 << 20
_STACK_GROWTH = 16 << 20
_LOWEST, _HIGHEST = 0x10000, 0x7FFFFFFFF000
_GAP = 1 << 20
_PART = 8192  # bytes that are read at a time
_LAST = b"[vdso]"  # what the kernel maps last of a program that is executed
#: How the memory of a session is called in a target's maps.
DATA_NAME = "/memfd:gilk-data-"
CODE_NAME = "/memfd:gilk-code-"
MEMORY_NAME = "/memfd:gilk-memory-"
_OURS = (CODE_NAME, DATA_NAME, MEMORY_NAME, "/memfd:gilk-raised-")


@dataclass(frozen=True, slots=True)
class Mapping:
    """A line of /proc/PID/maps: ``start`` and ``end`` are addresses, ``offset`` is that in the file."""

    start: int
    end: int
    permissions: str
    offset: int
    inode: int
    path: str
    device: int = 0  # as os.makedev() makes it; stat(2) may name another (btrfs, overlayfs)

    @property
    def executable(self) -> bool:
        return "x" in self.permissions

    @property
    def ours(self) -> bool:
        """Whether this is memory of a session. "gilk" anywhere in the path would not do: a file may have it in its
        path, and a program may call its own memory so."""
        return self.path.startswith(_OURS)


def read_maps(pid: int) -> tuple[Mapping, ...]:
    """All mappings of a process, by ascending address; when it executes another program just now, those of that
    program. Raises TargetError `no-such-process`, `no-permission`, `busy`."""
    with _named_errors(pid):
        return parse_maps(of_memory(pid, _text))


def _text(tid: int) -> bytes:
    """The text about a thread's mappings; empty for one of the kernel's, and of a zombie. Raises OSError."""
    text = _read(tid)
    if text and _LAST not in text:
        return _of_whole_program(tid)
    if not text and not is_kernels_process(tid) and not has_ended(tid):
        raise ProcessLookupError
    return text


def _read(tid: int) -> bytes:
    with _maps_file(tid) as file:
        return whole(file)


class _ExecutingError(ProcessLookupError):
    """Some of the mappings are not there yet, since the process is about to execute another program."""


def _of_whole_program(tid: int) -> bytes:
    """The text, if it is about one program, whole: the kernel says where the code begins only when it has mapped the
    program (load_elf_binary() in its fs/binfmt_elf.c). Raises OSError."""
    before, text, after = stat_of(tid), _read(tid), stat_of(tid)
    if before[CODE_START] == b"0" or before[STACK_START] != after[STACK_START]:
        raise _ExecutingError
    return text


def whole(file: FileIO) -> bytes:
    """The rest of the file. It is read in parts, since the kernel gives a page at a time, and FileIO.read() would ask
    about the file and grow a buffer."""
    parts = list(iter(lambda: file.read(_PART), b""))
    return b"".join(parts)


@contextlib.contextmanager
def open_maps(pid: int) -> Iterator[FileIO]:
    """/proc/PID/maps, open. Raises TargetError `no-such-process`, `no-permission`."""
    with _named_errors(pid), of_memory(pid, _maps_file) as file:
        yield file


@contextlib.contextmanager
def _named_errors(pid: int) -> Iterator[None]:
    try:
        yield
    except _ExecutingError:
        raise TargetError("busy", f"the kernel has not yet mapped the program that process {pid} executes") from None
    except (FileNotFoundError, ProcessLookupError):
        raise TargetError("no-such-process", f"there is no process {pid}") from None
    except PermissionError:
        raise TargetError("no-permission", f"no permission to look into process {pid}") from None


def _maps_file(tid: int) -> FileIO:
    return open(f"/proc/{tid}/maps", "rb", buffering=0)


@functools.lru_cache(maxsize=8)  # the text is mostly what it was the last time
def parse_maps(text: bytes) -> tuple[Mapping, ...]:
    return tuple(_parse(line) for line in text.decode(errors="surrogateescape").split("\n") if line)


@functools.lru_cache(maxsize=1 << 14)  # and if not, most of its lines are
def _parse(line: str) -> Mapping:
    fields = line.split(maxsplit=5)
    start, end = (int(part, 16) for part in fields[0].split("-"))
    path = fields[5] if len(fields) > 5 else ""
    device = os.makedev(*(int(part, 16) for part in fields[3].split(":")))
    return Mapping(start, end, fields[1], int(fields[2], 16), int(fields[4]), path, device)


def holders(name: str) -> list[int]:
    """The processes, as far as we may see them, that can execute the memory object ``name`` (memfd_create(2)).

    The client has it mapped too, but only to write to it.
    """
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                text = (entry / "maps").read_bytes() or _maps_of_others(int(entry.name))
                lines = text.decode(errors="surrogateescape").split("\n")
                maps = [_parse(line) for line in lines if name in line]
                if any(mapping.path.startswith(f"/memfd:{name}") and mapping.executable for mapping in maps):
                    found.append(int(entry.name))
    return found


def _maps_of_others(pid: int) -> bytes:
    """The mappings of a process whose main thread, or all of which, has none: it has ended, or is the kernel's. Raises
    OSError."""
    tid = thread_with_memory(pid)
    return Path(f"/proc/{tid}/maps").read_bytes() if tid != pid else b""


def program_of(pid: int) -> str:
    """The file that a process executes, as its mappings name it; '' when it has ended."""
    try:
        return proc_link(pid, "exe")
    except OSError:
        return ""


def link_of(pid: int, path: Path) -> str:
    """The name of the symbolic link beside the program at ``path`` by which the process has executed it (redis-server
    leads to redis-check-rdb, ls to busybox); '' if there is none. A process may call itself as it likes (prctl(2)): its
    name counts only if a link of that name leads to its file."""
    with contextlib.suppress(OSError):
        name = name_of(pid)
        if name not in ("", ".", "..", path.name) and "/" not in name and os.path.samefile(path.with_name(name), path):
            return name
    return ""


def heap_start(pid: int) -> int:
    """The address at which the kernel lets the heap begin (start_brk, field 47 of /proc/PID/stat, proc(5)); 0 when it
    does not say."""
    try:
        return of_memory(pid, lambda tid: int(stat_of(tid)[HEAP_START]))
    except OSError:
        return 0


def occupied(maps: tuple[Mapping, ...], growth: bool = True, heap: int = 0) -> Occupied:
    """The addresses in use, and, with ``growth``, the room that heap and stack need to grow.

    ``heap`` is the address where a heap will begin that is not mapped yet: a program that was just launched has none.
    Addresses that a process can never map count as in use: without randomization its stack, and the linker below it,
    are at the top of what it can map, and a displacement may lead beyond.
    """
    ranges = [(0, _LOWEST), (_HIGHEST, 1 << 64)]
    if growth and heap:
        ranges.append((heap, heap + _HEAP_GROWTH))
    for mapping in maps:
        start, end = mapping.start, mapping.end
        if growth and mapping.path == "[heap]":
            end += _HEAP_GROWTH
        elif growth and mapping.path == "[stack]":
            start -= _STACK_GROWTH
        ranges.append((start, end))
    return Occupied(_merged(sorted(ranges)))


def _merged(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    result: list[tuple[int, int]] = []
    for start, end in ranges:
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return tuple(result)


def find_room(space: Occupied, low: int, high: int, size: int) -> int | None:
    """The page-aligned start of a free range of ``size`` bytes from which all of [low, high) is in reach, the nearest
    below if possible; None if there is none."""
    bottom = max(_LOWEST, high - REACH)
    top = min(_HIGHEST, low + REACH)
    below = _gaps_below(space, bottom, low, size)
    if below:
        return max(below)
    above = _gaps_above(space, high, top, size)
    return min(above) if above else None


def _gaps_below(space: Occupied, bottom: int, low: int, size: int) -> list[int]:
    """The highest possible start of the range in each gap below ``low``."""
    result = []
    previous = _LOWEST
    for start, end in (*space.ranges, (_HIGHEST, _HIGHEST)):
        top = min(start, low) - _GAP
        candidate = (top - size) & -PAGE
        if candidate >= max(previous + _GAP, bottom):
            result.append(candidate)
        previous = end
        if start >= low:
            break
    return result


def _gaps_above(space: Occupied, high: int, top: int, size: int) -> list[int]:
    result = []
    previous = _LOWEST
    for start, end in (*space.ranges, (_HIGHEST, _HIGHEST)):
        candidate = (max(previous, high) + _GAP + PAGE - 1) & -PAGE
        if candidate + size + _GAP <= min(start, top):
            result.append(candidate)
        previous = end
    return result
