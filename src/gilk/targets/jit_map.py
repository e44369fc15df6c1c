# SPDX-License-Identifier: LGPL-2.1-or-later
"""The names of code that a process compiles while it runs: the process writes them to /tmp/perf-PID.map for profilers.

A line is ``START SIZE NAME``, both numbers hexadecimal (tools/perf/Documentation/jit-interface.txt of Linux). PID is
the process's number in its own PID namespace, and /tmp is the one that it sees. The file, and the path to it, may be
made by the target's user: it is opened without following a link, has to belong to that user, and no more of it is read
than ``LARGEST`` bytes.
"""

from __future__ import annotations

import bisect
import os
import re
import stat
import weakref
from typing import NamedTuple

from gilk.targets.namespaces import own_number
from gilk.targets.status import status_of

LARGEST = 1 << 26  # bytes of a file that are read
_MOST = 1 << 20  # lines
_LONGEST, _LONGEST_LINE = 512, 560  # letters of a name, and of a line
_LINE = re.compile(rb"(?:0x)?([0-9a-fA-F]{1,16}) (?:0x)?([0-9a-fA-F]{1,8}) +([^\n]+)\Z")
_NEAR = 32  # how many pieces of code that start before an address are looked at
_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_UNPRINTABLE = re.compile(r"[^ -~\u00a1-\U0010ffff]")


class GeneratedCode(NamedTuple):
    """A piece of generated code. ``order``: the number of its line; a later line may be about code that replaces
    earlier code at the same address."""

    start: int
    order: int
    size: int
    name: str


class JitMap:
    """The names of one process's generated code, also once the process has ended. ``remark``: why names are not known,
    or not all; '' if nothing is wrong, or if there is no such file."""

    def __init__(self, pid: int) -> None:
        self.remark = ""
        self._number = own_number(pid)
        self.name = f"perf-{self._number}.map"
        self._users = _users(pid)
        self._directory = _temporary(pid)
        self._found: list[GeneratedCode] = []
        self._sorted = True
        self._read = (0, 0, 0)  # device, inode, and bytes read of the file
        self._rest = b""
        self._close = weakref.finalize(self, os.close, self._directory) if self._directory >= 0 else None

    def settle(self) -> None:
        """Read the file a last time, and close everything: the process generates no more code."""
        self._look()
        self._directory = -1
        if self._close is not None:
            self._close()

    def at(self, address: int) -> GeneratedCode | None:
        """The latest piece of code in which an address lies; None if there is none."""
        self._look()
        if not self._sorted:
            self._found.sort()
            self._sorted = True
        end = bisect.bisect_right(self._found, (address, _MOST + 1))
        near = self._found[max(0, end - _NEAR) : end]
        there = [each for each in near if each.start <= address < each.start + each.size]
        return max(there, key=lambda each: each.order, default=None)

    def _look(self) -> None:
        """Read the lines that were written since the last time."""
        file = self._open()
        if file < 0:
            return
        try:
            self._read_from(file)
        except OSError as error:
            self.remark = f"/tmp/{self.name} cannot be read: {error.strerror}"
        finally:
            os.close(file)

    def _open(self) -> int:
        """A descriptor of the file; -1 if there is none, or it is not to be trusted."""
        if self._directory < 0 or not self._number:
            return -1
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        try:
            looked = os.open(self.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._directory)
        except OSError:
            return -1
        try:
            found = os.fstat(looked)
            self.remark = self._objection(found)
            return os.open(f"/proc/self/fd/{looked}", flags) if not self.remark else -1
        except OSError as error:
            self.remark = f"/tmp/{self.name} cannot be read: {error.strerror}"
            return -1
        finally:
            os.close(looked)

    def _objection(self, found: os.stat_result) -> str:
        if not stat.S_ISREG(found.st_mode):
            return f"/tmp/{self.name} is not read: it is no regular file"
        if found.st_uid not in self._users:
            return f"/tmp/{self.name} is not read: it belongs to another user (uid {found.st_uid})"
        return ""

    def _read_from(self, file: int) -> None:
        found = os.fstat(file)
        device, inode, read = self._read
        if (device, inode) != (found.st_dev, found.st_ino) or found.st_size < read:
            self._found, self._rest, read = [], b"", 0  # the file was replaced or truncated
        wanted = min(found.st_size, LARGEST) - read
        data = os.pread(file, wanted, read) if wanted > 0 else b""
        self._read = (found.st_dev, found.st_ino, read + len(data))
        if data:
            self._take(data)
        if found.st_size > LARGEST or len(self._found) >= _MOST:
            self.remark = f"/tmp/{self.name} is too large: names at its end are not known"

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[:_LONGEST_LINE]
        for line in lines[: _MOST - len(self._found)]:
            match = _LINE.match(line[:_LONGEST_LINE])
            if match is not None:
                name = _UNPRINTABLE.sub("?", match[3].decode("utf-8", "replace"))[:_LONGEST]
                self._found.append(GeneratedCode(int(match[1], 16), len(self._found), int(match[2], 16), name))
        self._sorted = False


def _users(pid: int) -> frozenset[int]:
    """The user IDs that may own the files of a process; empty if it has ended."""
    try:
        return frozenset(map(int, status_of(pid).get(b"Uid", b"").split()))
    except (OSError, ValueError):
        return frozenset()


def _temporary(pid: int) -> int:
    """A descriptor of the /tmp that a process sees; -1 if there is none, or if it is a link, which might lead to our
    own."""
    try:
        root = os.open(f"/proc/{pid}/root", _DIRECTORY)
    except OSError:
        return -1
    try:
        return os.open("tmp", _DIRECTORY | os.O_NOFOLLOW, dir_fd=root)
    except OSError:
        return -1
    finally:
        os.close(root)
