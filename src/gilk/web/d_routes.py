# SPDX-License-Identifier: LGPL-2.1-or-later
"""The page where a D program is written: its twins, which are asked as one types, and the beginning of a session.

Each question has a time limit, after which the worker that was asked is killed, and another takes its place.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.requests import Request

from gilk.web import children
from gilk.web.answers import given, whole_number
from gilk.web.children import ServerChild, ToldError
from gilk.web.grants import Grants, born, title_of
from gilk.web.sessions import d_commands

Json = dict[str, Any]
_WITHIN: Final = {"check": 5.0, "words": 5.0, "preview": 60.0}  # seconds
_BEGINS_WITHIN: Final = 60.0  # seconds for a worker to begin, on a machine that is busy


class DPages:
    """``grants``: the processes within reach. Questions are asked one after the other, so that each has all of its
    time."""

    def __init__(self, grants: Grants) -> None:
        self._grants = grants
        self._workers: dict[str, ServerChild] = {}
        self._free: dict[str, asyncio.Lock] = {}

    def stop(self) -> None:
        for worker in self._workers.values():
            worker.kill()

    # Twins.

    async def page(self, request: Request) -> Json:
        """The page itself: whose process it is, and the program of its address."""
        identity, text = request.path_params["target"], request.query_params.get("text", "")
        name = self._running(identity)
        check_text(text)
        facts = {"id": identity, "title": title_of(name), "pid": int(name[4:]), "acts": self._grants.acts, "text": text}
        return {**facts, **d_commands(name[4:], text)}

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
        """By the address, or by the body of a POST, which a long program takes. Raises ToldError, TargetError."""
        identity = request.path_params["target"]
        name = self._running(identity)
        if request.method == "POST":
            asked = await given(request, text=str, at=int) if at else await given(request, text=str)
        else:
            query = request.query_params
            asked = {"text": query.get("text", ""), "at": whole_number(query.get("at", "0"))}
        check_text(asked["text"])
        return {"pid": int(name[4:]), "born": born(identity)}, asked["text"], asked.get("at", 0)

    def _running(self, identity: str) -> str:
        name = self._grants.target(identity)
        if not identity.startswith("pid-"):
            raise ToldError("not-running", "the window runs D programs in processes only", "gilk dtrace --on")
        return name

    # The workers.

    async def _answer(self, what: str, **asked: Any) -> Json:
        """Previews, which take longer, have a worker of their own."""
        role = "preview" if what == "preview" else "type"
        async with self._free.setdefault(role, asyncio.Lock()):
            worker = await self._worker(role)
            try:
                return await asyncio.wait_for(worker.ask(what, **asked), _WITHIN[what])
            except TimeoutError:
                self._end(role)
                hint = "Begin takes as long as it needs; a description that matches fewer probes is quicker"
                raise ToldError("d-too-slow", f"that was given up after {_WITHIN[what]:.0f} s", hint, 503) from None
            except asyncio.CancelledError:
                self._end(role)
                raise

    def _end(self, role: str) -> None:
        self._workers.pop(role).kill()

    async def _worker(self, role: str) -> ServerChild:
        """One that has begun: that may take long, and is not the program's fault."""
        worker = self._workers.get(role)
        if worker is None or worker.process.returncode is not None:
            worker = self._workers[role] = await children.begun("gilk.web.d_worker")
            try:
                await asyncio.wait_for(worker.ask("ready"), _BEGINS_WITHIN)
            except TimeoutError:
                self._end(role)
                raise children.GONE from None
        return worker


def check_text(text: str) -> None:
    """Raises ToldError `bad-request` for what no file can have."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ToldError("bad-request", "the program has half of a letter in it (a lone surrogate)") from None
    if "\0" in text:
        raise ToldError("bad-request", "the program has a NUL in it, which no command line can have")
