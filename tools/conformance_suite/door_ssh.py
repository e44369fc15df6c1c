# SPDX-License-Identifier: LGPL-2.1-or-later
"""Take the place of ``ssh`` for `gilk dtrace --on ssh:MACHINE`: door_ssh.py MACHINE COMMAND has the door (door.py) run
the command in its virtual machine, with the input and the output that it has here."""

from __future__ import annotations

import json
import os
import socket
import sys
from threading import Thread


def main() -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ["DOOR"])
        connection.sendall(json.dumps({"run": os.environ["DOOR_RUN"], "command": sys.argv[2]}).encode() + b"\n")
        Thread(target=take_in, args=(connection,), daemon=True).start()
        while content := connection.recv(1 << 16):
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()


def take_in(connection: socket.socket) -> None:
    while content := os.read(0, 1 << 16):
        connection.sendall(content)
    connection.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main()
