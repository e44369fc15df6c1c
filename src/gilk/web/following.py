# SPDX-License-Identifier: LGPL-2.1-or-later
"""A session as lines of JSON that go on until it is over, for programs: ``/session/N.ndjson?follow=1``.

State is sent, not history: the next line is made only when the client has taken the last one, and has the state of that
moment. So a slow client costs the memory of one line. Output comes whole as far as it is kept, and otherwise with the
number of letters that are missing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from gilk.web.answers import failed, whole_number
from gilk.web.children import ToldError
from gilk.web.sessions import Sessions, WebSession

Json = dict[str, Any]
_KIND: Final = "application/x-ndjson"
_EVERY: Final = 0.1  # the seconds between two lines


class FollowedSession:
    """Handles the address of the lines."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def answer(self, request: Request) -> Response:
        """The lines of a session; one line without ``follow=1``."""
        try:
            session = self._sessions.get(whole_number(request.path_params["number"]))
        except ToldError as error:
            return failed(error)
        goes_on = request.query_params.get("follow", "") == "1"
        return StreamingResponse(lines(session, goes_on), media_type=_KIND)


async def lines(session: WebSession, goes_on: bool) -> AsyncIterator[bytes]:
    """The lines, each made when it is asked for. Without ``goes_on`` there is one."""
    seen = 0
    while True:
        revision, now = session.revision, session.shown()
        is_last = not goes_on or bool(session.end and "report" in now)
        yield json.dumps(line_of(now, seen)).encode() + b"\n"
        if is_last:
            return
        seen = now.get("letters", 0)
        await asyncio.gather(asyncio.sleep(_EVERY), session.changed_since(revision))


def line_of(state: Json, seen: int) -> Json:
    """The state, with what was printed after the first ``seen`` letters; ``missed`` is how many of these are not kept
    any more.
    """
    if "letters" not in state:
        return state
    new = state["letters"] - seen
    printed = state["printed"][max(0, len(state["printed"]) - new) :]
    missed = new - len(printed)
    return {**state, "printed": printed, **({"missed": missed} if missed else {})}
