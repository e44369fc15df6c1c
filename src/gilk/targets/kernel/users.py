# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes of a machine whose kernel is traced, and the files from which they execute code, as the kernel there shows
them."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from gilk.analysis.analysis import Analysis
from gilk.errors import ImageError, TargetError
from gilk.image import elf
from gilk.image.dwarf import sections
from gilk.image.dwarf.sections import Sections
from gilk.image.model import Image
from gilk.image.stapsdt import UsdtMarker, marks_in
from gilk.lang.d.probes import is_glob
from gilk.targets.base import Loaded
from gilk.targets.image import analyse
from gilk.targets.kernel.link import Link
from gilk.targets.maps import Mapping as Mapped
from gilk.targets.maps import parse_maps
from gilk.targets.program import path_there
from gilk.targets.stat import START_TIME, STATE, THREADS, fields_of
from gilk.values import dataclass

_AT_ENTRY = 9  # AT_ENTRY of the auxiliary vector: the program's entry point (elf(5))
_ENDED = (b"Z", b"X")
_NUMBER = re.compile(r"[0-9]{1,10}\Z")
_SCRIPT = b"#!"
#: A shell script that looks for a program as execvp(3) does.
_LOOK = 'IFS=:; set -f; for d in $1; do f="${d:-.}/$2"; [ -f "$f" ] && [ -x "$f" ] && echo "$f" && exit 0; done; exit 1'
_LISTED = re.compile(r"(?:=> |^\s+)(/.*) \(0x[0-9a-f]+\)$", re.MULTILINE)
_SCRIPTS = 4  # scripts that name one another: as many as the kernel follows (BINPRM_BUF_SIZE's loop in fs/exec.c)


@dataclass(frozen=True)
class UserFile:
    """A file that processes map. ``path``: by which it can be opened there. ``loaded``: its names; its addresses are
    link-time ones. ``pids``: the processes that map it, among those that were looked at."""

    path: str
    loaded: Loaded
    pids: tuple[int, ...]


@dataclass(frozen=True)
class UserCommand:
    """A command that process ``pid`` is yet to execute."""

    pid: int
    words: tuple[str, ...]
    directory: str
    environment: Mapping[str, str]


class UserProcesses:
    """The traced processes ``pids``, or the process of ``command``. They are traced as one, under the number of the
    first, or with ``by_number`` each under its own number. Every file is read once. Methods raise MachineGone."""

    def __init__(
        self, link: Link, pids: Sequence[int] = (), command: UserCommand | None = None, by_number: bool = False
    ) -> None:
        self._link, self._command, self._by_number = link, command, by_number
        self.pids = tuple(pids) if command is None else (command.pid,)
        self._images: dict[str, Image] = {}
        self._analyses: dict[str, Analysis] = {}
        self._marks: dict[str, tuple[UsdtMarker, ...]] = {}
        self._files: dict[tuple[int, ...], tuple[UserFile, ...]] = {}
        self._opened: tuple[str, ...] = ()

    def open_later(self, paths: Sequence[str]) -> None:
        """Include files that processes may map later, beside those that they have mapped: the kernel puts probes there
        before any of their code runs."""
        if self._opened != tuple(paths):
            self._opened = tuple(paths)
            self._files.clear()

    def meant(self, provider: str) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The numbers with which the name of a provider of processes, or a glob, may end, each with its processes. If
        the name ends with the number of a process that is not traced, that process is given."""
        traced = [((pid,), str(pid)) for pid in self.pids] if self._by_number else [(self.pids, "")]
        numbers = {number or str(pids[0]): pids for pids, number in traced if pids}
        found = _NUMBER.search(provider)
        if found is None:
            yield from numbers.items() if is_glob(provider) else ()
        elif any(provider.endswith(number) for number in numbers):
            yield from ((number, pids) for number, pids in numbers.items() if provider.endswith(number))
        elif int(found[0]):
            yield found[0], (int(found[0]),)

    def began(self, pid: int) -> str:
        """The start time of a process, which tells it from another that has its number later; "" if there is no such
        process or it has ended: the main thread may end before others."""
        fields = _stat_of(self._link, pid)
        if len(fields) <= START_TIME or (fields[STATE] in _ENDED and fields[THREADS] in (b"0", b"1")):
            return ""
        return fields[START_TIME].decode()

    def files(self, pids: tuple[int, ...]) -> tuple[UserFile, ...]:
        """The files of these processes, the first process's first. A process that has ended has none."""
        if pids not in self._files:
            found = tuple(self._found(pids))
            self._files[pids] = (*found, *self._to_be_opened(found, pids))
        return self._files[pids]

    def _to_be_opened(self, known: Sequence[UserFile], pids: tuple[int, ...]) -> Iterator[UserFile]:
        """The files that may be mapped later and are not known already. Raises TargetError `no-such-file`."""
        there = {str(file.loaded.path) for file in known}
        for path in self._opened:
            status, said, _ = self._link.run(["readlink", "-e", "--", os.path.abspath(path)])
            if status:
                raise TargetError("no-such-file", f"there is no file {path} that a process could open")
            real = os.fsdecode(said).removesuffix("\n")
            if real not in there:
                there.add(real)
                yield replace(self._named(real, Path(real), False, 0), pids=pids)

    def _found(self, pids: tuple[int, ...]) -> Iterator[UserFile]:
        if self._command is not None and pids == (self._command.pid,):
            yield from self._of_command(self._command)
            return
        found: dict[tuple[int, int], UserFile] = {}
        for pid in pids:
            for key, file in self._of_process(pid):
                known = found.get(key)
                found[key] = file if known is None else replace(known, pids=(*known.pids, pid))
        yield from found.values()

    def image(self, file: UserFile) -> Image:
        """The image of a file. Raises ImageError."""
        if file.path not in self._images:
            try:
                data = self._link.read_file(file.path)
            except OSError as error:
                raise ImageError("no-such-file", f"{file.loaded.path} cannot be read: {error.strerror}") from None
            self._images[file.path] = elf.load_bytes(data, file.loaded.path)
        return self._images[file.path]

    def debug(self, file: UserFile) -> Sections | None:
        """The debug information in the file itself; None if it has none. Raises ImageError."""
        try:
            return sections.read_bytes(self._link.read_file(file.path), file.loaded.path)
        except OSError as error:
            raise ImageError("no-such-file", f"{file.loaded.path} cannot be read: {error.strerror}") from None

    def marks(self, file: UserFile) -> tuple[UsdtMarker, ...]:
        """The USDT probes in a file; empty if it is not an ELF file or cannot be read."""
        if file.path not in self._marks:
            try:
                self._marks[file.path] = marks_in(self._link.read_file(file.path), file.loaded.path)
            except (ImageError, OSError):
                self._marks[file.path] = ()
        return self._marks[file.path]

    def analysis(self, file: UserFile) -> Analysis:
        if file.path not in self._analyses:
            self._analyses[file.path] = analyse(self.image(file))
        return self._analyses[file.path]

    # Processes that run.

    def _of_process(self, pid: int) -> Iterator[tuple[tuple[int, int], UserFile]]:
        """The files that a process has mapped executable, by device and inode. The path of each is a link that leads to
        the very file, whatever its name was, and whatever has that name now (proc_pid_map_files(5))."""
        tid, maps, entry = self._mapped(pid)
        seen = set()
        for at in maps:
            key = at.device, at.inode
            if at.executable and at.inode and key not in seen:
                seen.add(key)
                main = any(each.start <= entry < each.end for each in maps if (each.device, each.inode) == key)
                yield key, self._named(f"/proc/{tid}/map_files/{at.start:x}-{at.end:x}", _name(at), main, pid)

    def _mapped(self, pid: int) -> tuple[int, tuple[Mapped, ...], int]:
        """The first thread of a process that has memory, which a main thread that has ended has not; the mappings that
        it shows, none if the process has ended, and the program's entry point."""
        for tid in chain((pid,), self._threads(pid)):
            try:
                if maps := parse_maps(self._link.read_file(f"/proc/{tid}/maps")):
                    return tid, maps, _entry(self._link.read_file(f"/proc/{tid}/auxv"))
            except OSError:
                continue
        return pid, (), 0

    def _threads(self, pid: int) -> Iterator[int]:
        """The threads of a process, which are looked up when they are asked for."""
        _, said, _ = self._link.run(["ls", f"/proc/{pid}/task"])
        yield from map(int, said.split())

    def _named(self, path: str, name: Path, main: bool, pid: int) -> UserFile:
        file = UserFile(path, Loaded(name, 0, 0, 0, main), (pid,))
        try:
            return replace(file, loaded=replace(file.loaded, soname=self.image(file).soname))
        except ImageError:
            return file

    # A command.

    def _of_command(self, command: UserCommand) -> Iterator[UserFile]:
        """The program of a command, and the libraries that its dynamic linker says it will load. Raises TargetError
        `cannot-launch`."""
        program = self._program(command, self._looked_up(command))
        yield program
        interpreter = self.image(program).interpreter
        if interpreter:
            words = ["env", *(f"{name}={value}" for name, value in _of_loader(command.environment))]
            _, said, _ = self._link.run([*words, interpreter, "--list", program.path])
            for path in dict.fromkeys(_LISTED.findall(os.fsdecode(said))):
                yield self._named(path, Path(path), False, command.pid)

    def _program(self, command: UserCommand, path: str) -> UserFile:
        """The file that is executed in the end: for a script its interpreter."""
        for _ in range(_SCRIPTS):
            try:
                data = self._link.read_file(path)
            except OSError as error:
                raise TargetError("cannot-launch", f"cannot run {path} there: {error.strerror}") from None
            words = data[:256].partition(b"\n")[0][len(_SCRIPT) :].split()
            if not data.startswith(_SCRIPT) or not words:
                break
            path = os.fsdecode(words[0])
        return self._named(path, Path(path), True, command.pid)

    def _looked_up(self, command: UserCommand) -> str:
        name = command.words[0]
        if "/" in name:
            return os.path.join(command.directory, name)
        words = ["sh", "-c", _LOOK, "sh", command.environment.get("PATH", os.defpath), name]
        status, said, _ = self._link.run(words)
        if status:
            raise TargetError("cannot-launch", f"cannot run {name} there: there is no such program")
        return os.path.join(command.directory, os.fsdecode(said).rstrip("\n"))


def is_stopped(link: Link, pid: int) -> bool:
    """Whether the process there is stopped and waits for a SIGCONT."""
    return _stat_of(link, pid)[STATE : STATE + 1] == [b"T"]


def _stat_of(link: Link, pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat there, as those of gilk.targets.stat; none if there is no such process."""
    try:
        return fields_of(link.read_file(f"/proc/{pid}/stat"))
    except OSError:
        return []


def _entry(auxiliary: bytes) -> int:
    """The program's entry point from the auxiliary vector; 0 if it is not there."""
    pairs = struct.iter_unpack("<QQ", auxiliary[: len(auxiliary) // 16 * 16])
    return next((value for kind, value in pairs if kind == _AT_ENTRY), 0)


def _name(at: Mapped) -> Path:
    return Path(path_there(at.path))


def _of_loader(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in environment.items() if name.startswith("LD_"))
