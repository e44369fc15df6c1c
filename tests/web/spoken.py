# SPDX-License-Identifier: LGPL-2.1-or-later
"""Children of a window to which the test is the server: it asks them whatever it likes, as a server that was taken over
would.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

from gilk.web.frames import ServerChannel
from gilk.web.grants import Grants, handed
from gilk.web.programs import spawned
from tests.web.served import PATIENCE

Json = dict[str, Any]


@dataclass
class Child:
    """A child process of a window. ``writing`` is the end of the pipe to it, ``reading`` that of the pipe from it; -1
    once it is closed.
    """

    process: Popen[bytes]
    channel: ServerChannel
    writing: int
    reading: int

    def ask(self, what: str, **given: Any) -> Json:
        """The answer to a question, or its error, with all that the child says before it left out."""
        self.channel.send({"id": 1, "ask": what, "given": given})
        while self.channel.waits(PATIENCE):
            said: Json = self.channel.receive()
            if "id" in said:
                return said
        raise AssertionError(f"there was no answer to {what}")

    def slug(self, what: str, **given: Any) -> str:
        """The slug of the error by which a question is refused; '' if it is not."""
        return str(self.ask(what, **given).get("error", {}).get("slug", ""))

    def state(self, wanted: str) -> Json:
        """The next state with that member."""
        while self.channel.waits(PATIENCE):
            state: Json = self.channel.receive().get("state", {})
            if wanted in state:
                return state
        raise AssertionError(f"there was no {wanted}")

    def leave(self) -> None:
        """Close its input, as a server does that ends a session."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    def hang_up(self) -> None:
        """Close both pipes, as the end of the server does."""
        self.leave()
        if self.reading >= 0:
            os.close(self.reading)
            self.reading = -1


@contextmanager
def spoken_to(name: str, grants: Grants) -> Iterator[Child]:
    """A child of that name (programs.py) with these grants. It has to end when its input does."""
    memory = handed(grants)
    try:
        made = spawned(name, memory)
    finally:
        os.close(memory)
    child = Child(made.process, ServerChannel(made.reading, made.writing), made.writing, made.reading)
    with made.process:
        try:
            yield child
            child.leave()
            made.process.wait(PATIENCE)
        finally:
            child.hang_up()
            made.process.kill()


def birth_of(pid: int) -> int:
    """The start time of a process, in clock ticks since that of the machine."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
