# SPDX-License-Identifier: LGPL-2.1-or-later
"""The door of a virtual machine: a ``dtrace`` that is called in the machine is run outside of it, where it takes
seconds in the place of minutes, and traces the kernel and the processes of the machine.

door_inside.py is that ``dtrace``. For each call the door runs the real command with `--on ssh:`, and door_ssh.py in the
place of ssh: it has the call start the relay in the machine, and what they say to each other passes through here.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from typing import Any

INSIDE = Path("inside")  # the directory with the dtrace of the machine, in the one that it shares
_HERE = Path(__file__).parent
_OUT, _ERR, _EXIT, _COMMAND = range(4)
_FRAME = struct.Struct("<BI")
_PIECE = 1 << 16  # bytes that are passed on at once
_LONGEST = 1 << 20  # bytes of the line that says what a connection is for


class _Call:
    """A call of dtrace in the machine: its connection, on which frames are sent one at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._lock = Lock()

    def tell(self, kind: int, content: bytes) -> None:
        with self._lock, suppress(OSError):
            self.connection.sendall(_FRAME.pack(kind, len(content)) + content)


class Door:
    """Serves the calls of one virtual machine. ``inside`` is the directory with its ``dtrace``, in ``folder``, which
    the machine shares. ``command``: the real dtrace."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self.inside = folder / INSIDE
        self._outside = folder / "outside"
        self._path = folder / "door"
        self._command = [*command, "--on", "ssh:the-machine"]
        self._key = secrets.token_hex(16)
        self._numbers = count()
        self._calls: dict[str, _Call] = {}
        self._waiting: dict[int, socket.socket] = {}
        self._network = socket.create_server(("127.0.0.1", 0))
        self._local = socket.socket(socket.AF_UNIX)
        self._local.bind(str(self._path))
        self._local.listen()
        python = f"exec {shlex.quote(sys.executable)} -I -S"
        port = self._network.getsockname()[1]
        _script(self.inside / "dtrace", f"{python} {_HERE}/door_inside.py {port} {self._key}")
        _script(self._outside / "ssh", f"{python} {_HERE}/door_ssh.py")
        for server, serve in ((self._network, self._from_inside), (self._local, self._from_ssh)):
            Thread(target=_accept, args=(server, serve), daemon=True).start()

    def close(self) -> None:
        self._network.close()
        self._local.close()

    def _from_inside(self, connection: socket.socket) -> None:
        """Serve a connection from the machine: a call, or a command that one of its calls has started."""
        wish = _line(connection)
        if wish.get("key") != self._key:
            connection.close()
        elif "number" in wish:
            _join(connection, self._waiting.pop(wish["number"]))
        else:
            self._call(_Call(connection), wish)

    def _from_ssh(self, connection: socket.socket) -> None:
        """Have the call whose command this is run the other command in the machine."""
        wish = _line(connection)
        number = next(self._numbers)
        self._waiting[number] = connection
        told = {"number": number, "command": wish["command"]}
        self._calls[wish["run"]].tell(_COMMAND, json.dumps(told).encode())

    def _call(self, call: _Call, wish: dict[str, Any]) -> None:
        name = str(next(self._numbers))
        self._calls[name] = call
        given = {**os.environ, **wish["environment"]}
        given |= {"PATH": f"{self._outside}:{os.environ['PATH']}", "DOOR": str(self._path), "DOOR_RUN": name}
        pipe = subprocess.PIPE
        place = wish["directory"] if os.path.isdir(wish["directory"]) else "/"
        process = subprocess.Popen(
            [*self._command, *wish["words"]], cwd=place, env=given, stdin=pipe, stdout=pipe, stderr=pipe,
            start_new_session=True,
        )  # fmt: skip
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        Thread(target=_feed, args=(process.stdin, wish["input"].encode()), daemon=True).start()
        Thread(target=_signals, args=(call.connection, process), daemon=True).start()
        errors = Thread(target=_tell, args=(call, _ERR, process.stderr.fileno()), daemon=True)
        errors.start()
        _tell(call, _OUT, process.stdout.fileno())
        errors.join()
        status = process.wait()
        call.tell(_EXIT, str(status if status >= 0 else 128 - status).encode())
        call.connection.close()


def _script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\n{text} "$@"\n')
    path.chmod(0o755)


def _accept(server: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    with suppress(OSError):  # the server has been closed
        while True:
            connection, _ = server.accept()
            Thread(target=serve, args=(connection,), daemon=True).start()


def _line(connection: socket.socket) -> dict[str, Any]:
    """The connection's first line, which is read byte by byte: behind it may come what is another's."""
    found = b""
    while not found.endswith(b"\n") and len(found) < _LONGEST and (piece := connection.recv(1)):
        found += piece
    try:
        return dict(json.loads(found))
    except ValueError:
        return {}


def _join(one: socket.socket, other: socket.socket) -> None:
    """Pass on what either says to the other, until both have ended."""
    back = Thread(target=_pass, args=(other, one), daemon=True)
    back.start()
    _pass(one, other)
    back.join()
    one.close()
    other.close()


def _pass(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(_PIECE):
            sink.sendall(content)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def _feed(pipe: Any, content: bytes) -> None:
    with suppress(OSError), pipe:
        pipe.write(content)


def _tell(call: _Call, kind: int, source: int) -> None:
    while content := os.read(source, _PIECE):
        call.tell(kind, content)


def _signals(connection: socket.socket, process: subprocess.Popen[bytes]) -> None:
    """Pass signals on. A call that was killed has its command killed."""
    with suppress(OSError):
        while number := connection.recv(1):
            process.send_signal(number[0])
    if process.poll() is None:
        process.kill()
