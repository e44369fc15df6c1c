# SPDX-License-Identifier: LGPL-2.1-or-later
"""The machine whose kernel a window instruments: the lab, which is a virtual one, this one, or one that is reached over
ssh. A child process (machine_host.py) has the connection to it, and runs one session at a time.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from gilk.web.children import GONE, Children, ServerChild, ToldError
from gilk.web.grants import title_of
from gilk.web.sessions import WebSession

Json = dict[str, Any]
_TICK: Final = 0.05  # seconds
_STARTING: Final = ToldError("machine-starting", "the machine is starting", "that takes some seconds", 503)


class WindowMachine:
    """``name``: as for --on, or '' for none. ``state``: off, starting, up or over. ``why``: the error that is the
    reason for the end of the machine or of the connection, if one is.
    """

    def __init__(self, name: str, children: Children) -> None:
        self.name, self._children = name, children
        self.state = "off"
        self.why: Json | None = None
        self._about: Json = {}
        self._child: ServerChild | None = None
        self._session: WebSession | None = None
        self._starting: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        """Have the machine started, unless it is there. Its errors are in ``why``."""
        if self.state not in ("starting", "up"):
            self.state, self.why, self._child, self._about = "starting", None, None, {}
            self._stopping = False
            self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        try:
            self._child = child = await self._children.begun("machine_host", self._tell, self._gone)
            self._about = await child.ask("start", machine=self.name)
            self.state = "up"
        except ToldError as error:
            self.state = "over"
            self.why = self.why or {"slug": error.slug, "message": error.message, "hint": error.hint}

    def _tell(self, state: Json) -> None:
        if "gone" in state:
            self.why = state["gone"]
        elif self._session is not None:
            self._session.told(state)
            if "report" in state:
                session, self._session = self._session, None
                session.gone()

    def _gone(self) -> None:
        if self.state == "up" and not self._stopping:
            self.why = self.why or {
                "slug": GONE.slug,
                "message": "the process with the connection to the machine was killed",
                "hint": "",
            }
        self.state = "over"
        if self._session is not None:
            self._session.gone()
            self._session = None

    async def shown(self) -> Json:
        """The state of the machine, with its console as it is now."""
        about = self._about
        if self.state == "up":
            with suppress(ToldError):
                about = await self.ask("state")
        return {"name": self.name, "title": title_of(self.name), "state": self.state, "why": self.why, **about}

    async def ask(self, what: str, **given: Any) -> Json:
        """The answer of the machine's process to a question. Raises ToldError: the child's, `machine-starting`,
        `machine-is-over`.
        """
        if self.state == "starting":
            raise _STARTING
        if self._child is None or self.state != "up":
            raise ToldError(
                "machine-is-over", "the machine has ended, or the connection to it", "its page starts it again", 409
            )
        return await self._child.ask(what, **given)

    async def begin(self, session: WebSession, what: str, **given: Any) -> Json:
        """Run a session in the machine: instruments (``session``), a D program (``program``) or a trace (``trace``).
        Raises ToldError; then nothing has changed.
        """
        if self._session is not None:
            hint = "take it out first: there is one at a time"
            raise ToldError("machine-busy", "a session is in that kernel already", hint, 409)
        self._session = session
        try:
            return await self.ask(what, **given)
        except ToldError:
            self._session = None
            raise

    async def leave(self) -> None:
        """Have the session that is in the machine end, as children of other sessions do."""
        with suppress(ToldError):  # the machine has ended, and the session with it
            await self.ask("end")

    async def leave_out(self) -> None:
        """Have the session that is in the machine end without a report, as soon as its file is complete."""
        with suppress(ToldError):
            await self.ask("leave-out")

    async def stop(self) -> None:
        """End the machine, or the connection to it. The session in it is over by then."""
        if self._starting is None:
            return
        self._stopping = True
        while self._child is None and not self._starting.done():
            await asyncio.sleep(_TICK)
        if self._child is not None:
            if self.state == "up":
                await self._child.leave()
            self._child.kill()
            if self._child.watching is not None:
                await self._child.watching
        await self._starting
        self.state, self.why = "over", None
