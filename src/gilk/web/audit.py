# SPDX-License-Identifier: LGPL-2.1-or-later
"""The audit file: a line of JSON for every action, with the command line that would do the same."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Awaitable
from pathlib import Path

from gilk.errors import StoreError
from gilk.web.children import ToldError
from gilk.web.sessions import WebSession


class Audit:
    """Appends to the audit file at ``path``, which only its owner can read. ``file``: its descriptor. Raises StoreError
    `cannot-write`.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._uid = path, os.getuid()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.file = os.open(path, flags, 0o600)
        except OSError as error:
            raise StoreError("cannot-write", f"{path}: {error.strerror}", "--audit names another file") from None

    def note(self, what: str, command: str = "", outcome: str = "") -> None:
        row = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "uid": self._uid, "what": what}
        row |= {name: text for name, text in (("command", command), ("outcome", outcome)) if text}
        os.write(self.file, json.dumps(row).encode() + b"\n")

    async def noted(self, beginning: Awaitable[WebSession], command: str) -> WebSession:
        """The session that ``beginning`` returns; a row has the outcome. Raises the ToldError of ``beginning``."""
        try:
            session = await beginning
        except ToldError as error:
            self.note("begin", command, f"refused: {error.message} ({error.slug})")
            raise
        self.note("begin", command, f"session {session.number}")
        return session


def usual_place() -> Path:
    """The usual path of the audit file: below the directory that the XDG base directory specification has for state."""
    base = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~")) / ".local" / "state"
    return folder / "gilk" / "web.jsonl"
