# SPDX-License-Identifier: LGPL-2.1-or-later
"""A command `ssh` that runs what it is given in the virtual machine, for tests of what gilk does over ssh."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from tests.kernel.driver.driving import Guest

_SLICE = 0.05  # seconds that the link to the machine is kept from other users
_CHUNK = 1 << 16
_SSH = """\
#!{python} -IS
import os, select, socket, sys
end = socket.socket(socket.AF_UNIX)
end.connect({place!r})
end.sendall(sys.argv[2].encode() + b"\\0")
sources = [0, end.fileno()]
while end.fileno() in sources:
    for each in select.select(sources, [], [])[0]:
        data = os.read(each, 65536)
        if not data:
            sources.remove(each)
            if not each:
                end.shutdown(socket.SHUT_WR)
        elif each:
            os.write(1, data)
        else:
            end.sendall(data)
"""


class SshIntoGuest:
    """``directory`` has the command, which serves one caller at a time. A thread has the link to the machine meanwhile,
    so that tests run their own commands there by run()."""

    def __init__(self, guest: Guest, directory: Path) -> None:
        self.directory = directory
        self._guest = guest
        self._lock, self._next = threading.Lock(), threading.Lock()
        self._over = False
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(directory / "socket"))
        self._socket.listen()
        command = directory / "ssh"
        command.write_text(_SSH.format(python=sys.executable, place=str(directory / "socket")))
        command.chmod(0o755)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> SshIntoGuest:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over = True
        with socket.socket(socket.AF_UNIX) as waking, suppress(OSError):
            waking.connect(str(self.directory / "socket"))
        self._thread.join()
        self._socket.close()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A context in which this thread alone has the link. The thread that waits longest has it next."""
        with self._next:
            self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()

    def run(self, *command: str) -> str:
        """The output of a command in the machine."""
        with self.alone():
            return self._guest.run(*command)

    def text(self, name: str) -> bytes:
        """The first bytes of a function of the kernel."""
        with self.alone():
            return self._guest.text(self._guest.symbols[name], 32)

    def _serve(self) -> None:
        while True:
            end, _ = self._socket.accept()
            if self._over:
                return
            with end, suppress(ConnectionError):
                self._one(end)

    def _one(self, end: socket.socket) -> None:
        """Run the command of one caller to its end."""
        asked = b""
        while b"\0" not in asked:
            asked += end.recv(_CHUNK)
        command, _, first = asked.partition(b"\0")
        with self.alone():
            process = self._guest.link.spawn(["sh", "-c", command.decode()], end.sendall, lambda _: None)
            process.write(first)
        sources = [end.fileno()]
        while process.status is None:
            with self.alone():
                there = self._guest.link.channel.pump(_SLICE, sources if process.hungry else [])
                if there and (data := end.recv(_CHUNK)):
                    process.write(data)
                elif there:
                    sources = []
                    process.end_input()
