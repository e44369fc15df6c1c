# SPDX-License-Identifier: LGPL-2.1-or-later
"""Answers questions in a copy of this process, which has in memory what this one has read, and which is killed if it
takes too long or too much memory. It is a worker as those of timed.py, for a process that is not the server.
"""

from __future__ import annotations

import base64
import os
import resource
import time
from collections.abc import Callable
from typing import Any, Final

from gilk.api.processes import ForkedCopy, forked_copy
from gilk.errors import GilkError, TargetError
from gilk.web.frames import Answers, Message, ServerChannel, ServerEnded
from gilk.web.serving import serve

Json = dict[str, Any]
Read = Callable[[str], bytes]
_MEMORY: Final = 8 << 30  # in bytes; what this process has is a part of it


class ForkedWorker:
    """``make`` is called in the copy, once, and returns its answers by the names of questions; it is given a function
    that reads a file by having this process call ``read``, which may raise OSError.
    """

    def __init__(self, make: Callable[[Read], Answers], read: Read) -> None:
        self._make, self._read = make, read
        self._child: tuple[ForkedCopy, ServerChannel] | None = None

    def ask(self, message: Message, within: float, too_slow: GilkError) -> Message:
        """The answer to a message with a question, ``{id, ask, given}``, within that many seconds. Raises ``too_slow``,
        TargetError `child-gone`.
        """
        _, channel = self._child = self._child or self._forked()
        until = time.monotonic() + within
        try:
            channel.send(message)
            while channel.waits(max(0.0, until - time.monotonic())):
                said = channel.receive()
                if "read" not in said:
                    return said
                channel.send(self._file(said["read"]))
        except ServerEnded:
            self.close()
            raise TargetError("child-gone", "the process that did this has ended", "try again") from None
        self.close()
        raise too_slow

    def close(self) -> None:
        """Kill the copy; the next question makes another one."""
        if self._child is not None:
            self._child[0].end()
            self._child = None

    def _file(self, path: str) -> Message:
        try:
            return {"content": base64.b64encode(self._read(path)).decode()}
        except OSError as error:
            return {"errno": error.errno}

    def _forked(self) -> tuple[ForkedCopy, ServerChannel]:
        copy = forked_copy(self._live)
        return copy, ServerChannel(copy.reading, copy.writing)

    def _live(self, reading: int, writing: int) -> None:
        """The life of the copy."""
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        channel = ServerChannel(reading, writing)
        serve(channel, self._make(lambda path: _asked(channel, path)))


def _asked(channel: ServerChannel, path: str) -> bytes:
    channel.send({"read": path})
    answer = channel.receive()
    if "errno" in answer:
        raise OSError(answer["errno"], os.strerror(answer["errno"]), path)
    return base64.b64decode(answer["content"])
