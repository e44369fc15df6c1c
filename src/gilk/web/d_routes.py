# SPDX-License-Identifier: LGPL-2.1-or-later
"""The page on which a D program is written: its JSON twins, which are requested while the user types.

Each question has a time limit (timed.py).
"""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request

from gilk.web.answers import given, whole_number
from gilk.web.children import ToldError
from gilk.web.grants import Grants, born, title_of
from gilk.web.sessions import d_commands
from gilk.web.timed import TimedWorkers

Json = dict[str, Any]
_WITHIN: Final = {"check": 5.0, "words": 5.0, "preview": 60.0}  # in seconds, by question
_TOO_SLOW: Final = ToldError(
    "d-too-slow", "that was given up, for it took too long",
    "Begin takes as long as it needs; a description that matches fewer probes is quicker", 503,
)  # fmt: skip


class DPages:
    """The handlers. ``grants``: the processes within reach."""

    def __init__(self, grants: Grants) -> None:
        self._grants = grants
        self._workers = TimedWorkers("gilk.web.d_worker", _TOO_SLOW)

    def stop(self) -> None:
        self._workers.stop()

    # Twins.

    async def page(self, request: Request) -> Json:
        """The page itself: its process, and the program in its address."""
        identity, text = request.path_params["target"], request.query_params.get("text", "")
        pid = self._grants.d_process(identity)
        check_text(text)
        title = title_of(f"pid:{pid}")
        facts = {"id": identity, "title": title, "pid": int(pid), "acts": self._grants.acts, "text": text}
        return {**facts, **d_commands(pid, text)}

    async def check(self, request: Request) -> Json:
        pid, text, _ = await self._asked(request)
        found = await self._answer("check", **pid, text=text)
        return {**found, **d_commands(str(pid["pid"]), text)}

    async def words(self, request: Request) -> Json:
        pid, text, at = await self._asked(request, at=True)
        return await self._answer("words", **pid, text=text, at=at)

    async def preview(self, request: Request) -> Json:
        pid, text, _ = await self._asked(request)
        return await self._answer("preview", **pid, text=text)

    async def _asked(self, request: Request, at: bool = False) -> tuple[dict[str, int], str, int]:
        """The process, the text and the position of a request: from the address, or from the body of a POST, which a
        long program needs. Raises ToldError, TargetError.
        """
        identity = request.path_params["target"]
        pid = self._grants.d_process(identity)
        if request.method == "POST":
            asked = await given(request, text=str, at=int) if at else await given(request, text=str)
        else:
            query = request.query_params
            asked = {"text": query.get("text", ""), "at": whole_number(query.get("at", "0"))}
        check_text(asked["text"])
        return {"pid": int(pid), "born": born(identity)}, asked["text"], asked.get("at", 0)

    async def _answer(self, what: str, **asked: Any) -> Json:
        """The answer of a worker. Previews, which take longer, have a worker of their own."""
        role = "preview" if what == "preview" else "type"
        return await self._workers.answer(role, _WITHIN[what], what, **asked)


def check_text(text: str) -> None:
    """Raises ToldError `bad-request` for a text that no file can contain."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ToldError("bad-request", "the program has half of a letter in it (a lone surrogate)") from None
    if "\0" in text:
        raise ToldError("bad-request", "the program has a NUL in it, which no command line can have")
