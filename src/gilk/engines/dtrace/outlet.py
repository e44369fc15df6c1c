# SPDX-License-Identifier: LGPL-2.1-or-later
"""Outlets: where a program's output goes, and who carries out system(), freopen(), ftruncate() and pcap()."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Protocol

from gilk.errors import StoreError
from gilk.trace.d import captures
from gilk.trace.d.values import Packet

#: Has a shell run a command whose output goes to a file; returns its exit status, as a shell gives it.
Shell = Callable[[bytes, IO[bytes]], int]


def shell_here(command: bytes, output: IO[bytes]) -> int:
    """Have a shell of this machine run the command, and wait for its end; returns its exit status."""
    import subprocess  # imported here, as few programs run commands

    status = subprocess.run(command, shell=True, check=False, stdout=output).returncode
    return status if status >= 0 else 128 - status


class Outlet(Protocol):
    def system(self, command: bytes, shell: Shell) -> int:
        """Have ``shell`` run the command; returns its exit status."""
        ...

    def freopen(self, name: bytes) -> None:
        """Send the output to another file. Raises OSError, ValueError."""
        ...

    def ftruncate(self) -> None: ...

    def capture(self, packet: Packet) -> bool:
        """Write the packet into a capture file; returns whether the output goes to one. Raises OSError, ValueError."""
        ...


class Pages:
    """Writes output to standard output or appends it to a file, until freopen() changes that."""

    def __init__(self, output: Path | None) -> None:
        self._first: IO[bytes] = sys.stdout.buffer if output is None else output.open("ab")
        self._to = self._first
        self._name = b""  # of the file that freopen() has named
        self._links: dict[bytes, int] = {}  # by name of a capture file, the kind of its packets' outermost headers

    def write(self, data: bytes) -> None:
        """Write the bytes at once. Raises StoreError `cannot-write` for a file, OSError for standard output."""
        try:
            self._to.write(data)
            self._to.flush()
        except OSError as error:
            if self._to is sys.stdout.buffer:
                raise
            hint = "free some space there; what was put into processes has been taken out"
            raise StoreError("cannot-write", f"{self._to.name}: {error.strerror}", hint) from None

    def system(self, command: bytes, shell: Shell) -> int:
        self._to.flush()
        return shell(command, self._to)

    def freopen(self, name: bytes) -> None:
        """Append the output to the file ``name``; if that is empty, send it to where it went at first."""
        self._to = self._first if not name else Path(os.fsdecode(name)).open("ab")  # noqa: SIM115 - until the next
        self._name = name

    def ftruncate(self) -> None:
        if self._to is not sys.stdout.buffer:
            self._to.truncate(0)
            self._to.seek(0)
            self._links.pop(self._name, None)

    def capture(self, packet: Packet) -> bool:
        """Write the packet to the file that freopen() has named, which its first packet empties. Raises OSError, and
        ValueError for a packet of another kind than those before it.
        """
        if not self._name:
            return False
        link = self._links.get(self._name)
        if link is None:
            self.ftruncate()
            self._to.write(captures.head(packet.link))
            self._links[self._name] = link = packet.link
        if link != packet.link:
            raise ValueError(f"the packets in a file are of one kind, and these of kind {link}, not {packet.link}")
        self._to.write(captures.entry(packet))
        self._to.flush()
        return True


class Aside:
    """An outlet for callers that take values: output is not redirected, and commands print to standard error."""

    def system(self, command: bytes, shell: Shell) -> int:
        return shell(command, sys.stderr.buffer)

    def freopen(self, name: bytes) -> None:
        """Do nothing: an event tells of it."""

    def ftruncate(self) -> None:
        """Do nothing: an event tells of it."""

    def capture(self, packet: Packet) -> bool:
        """Do nothing: an event has the packet."""
        return False
