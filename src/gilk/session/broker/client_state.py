# SPDX-License-Identifier: LGPL-2.1-or-later
"""What one consumer has in a session: its memory and its probes, which go when it goes, however it goes."""

from __future__ import annotations

import contextlib
from typing import Any

from gilk.errors import GilkError, TargetError
from gilk.session.broker.messages import ProtocolError, number, placed, semaphores
from gilk.session.broker.session import Carried, SharedSession
from gilk.target.base import Target
from gilk.target.semaphores import Raised

MOST_MEMORY = 1 << 36


class ClientState:
    """``identity``: no two of a session have the same."""

    def __init__(self, identity: int) -> None:
        self._identity = identity
        self._memory: tuple[int, int] | None = None  # address, size
        self._carried: list[Carried] = []
        self._sources: set[str] = set()
        self._inserted = 0
        self._listening: list[Raised] = []

    def have_memory(self, session: SharedSession, words: dict[str, Any]) -> tuple[dict[str, Any], int]:
        """Where it lies, from the beginning of the shared data, and its file. What is not used yet may be exchanged
        for less. Raises ProtocolError, TargetError.
        """
        size = number(words.get("size"), 1, MOST_MEMORY)
        if self._inserted:
            raise ProtocolError("one has memory before anything else")
        self._give_memory_back(session.process)
        fd, address = session.process.keeper.share_memory(size)
        self._memory = address, size
        return {"offset": address - session.data_address}, fd

    def insert(self, session: SharedSession, words: dict[str, Any], content: bytes) -> dict[str, Any]:
        """Why what is refused is, by its place. Raises ProtocolError, GilkError; nothing has changed then."""
        self._inserted += 1
        asked = placed(session.process, words, content, f"{self._identity}-{self._inserted}")
        self._sources |= {str(one.compiled.source) for one in asked}
        carried, reasons = session.put_in(asked)
        self._carried += carried
        return {"refused": sorted(reasons.items())}

    def listen(self, session: SharedSession, words: dict[str, Any]) -> dict[str, Any]:
        """Raise semaphores. Raises ProtocolError, TargetError."""
        wanted = semaphores(words)
        self._listening += session.process.raise_semaphores(wanted)
        return {}

    def leave(self, session: SharedSession) -> bool:
        """Whether all is out; a thread may be in the way of it for now."""
        try:
            session.take_out(self._carried)
        except TargetError as error:
            if error.slug != "no-such-process":
                return False
        except GilkError:
            return False
        self._carried = []
        session.forget(self._sources)
        self._fall_silent(session.process)
        self._give_memory_back(session.process)
        return True

    def _fall_silent(self, process: Target) -> None:
        raised, self._listening = self._listening, []
        if raised:
            with contextlib.suppress(GilkError):
                process.keeper.lower_semaphores(raised)

    def _give_memory_back(self, process: Target) -> None:
        if self._memory is not None:
            memory, self._memory = self._memory, None
            with contextlib.suppress(GilkError):  # the process may have ended
                process.keeper.unshare_memory(*memory)
