# SPDX-License-Identifier: LGPL-2.1-or-later
"""Lets a command go on in the background once it has begun its work."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

from gilk.targets.apart import fork
from gilk.targets.wire import ready

_CHUNK = 1 << 16


class Detached:
    """Constructing one forks this process. In the parent, ``child`` is the number of the child, and wait() must be
    called; in the child it is 0, and begun() must be called.

    The child has no terminal, and none of the parent's output files: neither the child nor the keepers that it starts
    keep a reader of that output waiting for its end. The parent passes the child's messages on until the child has
    begun.
    """

    def __init__(self) -> None:
        told, tell = os.pipe2(os.O_CLOEXEC)
        messages, says = os.pipe2(os.O_CLOEXEC)
        sys.stdout.flush()
        sys.stderr.flush()
        self.child = fork()
        self._told, self._messages = (told, messages) if self.child else (tell, says)
        for other in (tell, says) if self.child else (told, messages):
            os.close(other)
        if not self.child:
            self._leave()

    def _leave(self) -> None:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        os.dup2(self._messages, 2)
        os.close(nothing)
        os.close(self._messages)

    def begun(self) -> None:
        """In the child, report that it has begun; its further messages go nowhere."""
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 2)
        os.close(nothing)
        os.write(self._told, b".")
        os.close(self._told)

    def wait(self) -> int:
        """In the parent, wait until the child has begun or has ended; returns 0, or the child's exit status. Raises
        KeyboardInterrupt, after which the child is interrupted, too."""
        try:
            if self._passed_on():
                return 0
            status = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
            return status if status >= 0 else 128 - status
        except KeyboardInterrupt:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.child, signal.SIGINT)
                os.waitpid(self.child, 0)
            raise
        finally:
            os.close(self._told)
            os.close(self._messages)

    def _passed_on(self) -> bool:
        """Whether the child has begun, rather than ended; its messages until then are copied to our standard error."""
        while True:
            there, _ = ready([self._told, self._messages])
            if self._messages in there and (said := os.read(self._messages, _CHUNK)):
                os.write(sys.stderr.fileno(), said)
            elif self._told in there:
                return bool(os.read(self._told, 1))
