# SPDX-License-Identifier: LGPL-2.1-or-later
"""Take the place of ``dtrace`` in a virtual machine: door_inside.py PORT KEY ARGUMENTS... has the machine outside run
dtrace, and passes on its output, its status, and the signals that come here.

It connects to the door (door.py), whose frames it carries out: output, an error, the exit status, or a command that is
to run here with a connection of its own as its standard input and output.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys

HOST = "10.0.2.2"  # the address at which QEMU's router has the machine outside
OUT, ERR, EXIT, COMMAND = range(4)
FRAME = struct.Struct("<BI")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
STDIN = "/dev/stdin"


def connect(port: int, key: str, wish: dict[str, object]) -> socket.socket:
    """A connection to the door that has said what it is for."""
    connection = socket.create_connection((HOST, port))
    connection.sendall(json.dumps({"key": key, **wish}).encode() + b"\n")
    return connection


def read(connection: socket.socket, size: int) -> bytes:
    """So many bytes; fewer at the end of the stream."""
    found = b""
    while len(found) < size and (piece := connection.recv(size - len(found))):
        found += piece
    return found


def begin(port: int, key: str, wish: dict[str, object]) -> None:
    """Run a command here whose input and output are a connection."""
    with connect(port, key, {"number": wish["number"]}) as its:
        there = {**os.environ, "PATH": os.environ.get("PATH") or os.defpath}  # as a login over ssh has one
        subprocess.Popen(["/bin/sh", "-c", str(wish["command"])], env=there, stdin=its.fileno(), stdout=its.fileno())


def main() -> int:
    port, key, *words = sys.argv[1:]
    given = sys.stdin.read() if any(STDIN in word for word in words) else ""
    wish = {"words": words, "directory": os.getcwd(), "environment": dict(os.environ), "input": given}
    connection = connect(int(port), key, wish)
    for number in SIGNALS:
        signal.signal(number, lambda number, _: connection.sendall(bytes([number])))
    while head := read(connection, FRAME.size):
        kind, size = FRAME.unpack(head)
        content = read(connection, size)
        if kind == EXIT:
            return int(content)
        if kind == COMMAND:
            begin(int(port), key, json.loads(content))
        else:
            os.write(1 if kind == OUT else 2, content)
    return 1


if __name__ == "__main__":
    sys.exit(main())
