# SPDX-License-Identifier: LGPL-2.1-or-later
"""The sessions that this window has begun, each in a child; and who watches them."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from gilk.values import dataclass
from gilk.web import children
from gilk.web.children import ServerChild, ToldError

Json = dict[str, Any]
_MOST = 64  # sessions, those that have ended included; the oldest of these is forgotten


@dataclass(eq=False)
class WebSession:
    """``state`` is what its child told last. ``end``: '' while it goes on, else why it does not."""

    number: int
    target: str
    title: str
    requests: tuple[str, ...]
    since: float
    state: Json = field(default_factory=dict)
    end: str = ""
    revision: int = 0
    host: int = 0  # the number of its child's process
    child: ServerChild | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def command(self) -> str:
        """The command line that does the same."""
        pid = self.target.split("-")[1] if self.target.startswith("pid-") else ""
        words = ["gilk", "run", *(["-p", pid] if pid else []), *(w for r in self.requests for w in ("-i", r))]
        return shlex.join(words)

    @property
    def python(self) -> str:
        """The same in Python."""
        pid = self.target.split("-")[1] if self.target.startswith("pid-") else ""
        lines = [f"with gilk.attach({pid}) as target, target.session() as session:"]
        lines += [f"    session.insert({p!r}, {i!r})" for p, _, i in (r.rpartition("=") for r in self.requests)]
        return "\n".join(["import gilk", "", *lines, "    print(session.counts())"])

    def told(self, state: Json) -> None:
        self.state = state
        self.revision += 1
        self.changed.set()

    def gone(self) -> None:
        report = self.state.get("report")
        if report is None:
            self.state["report"] = None
            self.end = self.end or "its process was killed; gilk's keeper has taken everything out"
        self.end = self.end or "its target has ended"
        self.told(self.state)

    def shown(self) -> Json:
        facts = {
            "number": self.number, "target": self.target, "title": self.title, "requests": list(self.requests),
            "since": self.since, "end": self.end, "revision": self.revision, "host": self.host, "command": self.command,
            "python": self.python,
        }  # fmt: skip
        return {**facts, **self.state}


class Sessions:
    def __init__(self) -> None:
        self._all: dict[int, WebSession] = {}
        self._last = 0

    def all(self) -> list[WebSession]:
        """The newest first."""
        return list(reversed(self._all.values()))

    def get(self, number: int) -> WebSession:
        """Raises ToldError."""
        try:
            return self._all[number]
        except KeyError:
            hint = "the overview lists those there are"
            raise ToldError("no-such-session", f"there is no session {number}", hint, 404) from None

    async def begin(self, target: str, title: str, requests: Sequence[str]) -> WebSession:
        """Put instruments in. Raises ToldError; then nothing has changed."""
        made = WebSession(self._last + 1, target, title, tuple(requests), time.time())
        child = await children.begun("gilk.web.host", made.told, made.gone)
        pids = [int(target.split("-")[1])] if target.startswith("pid-") else []
        begun = await child.ask("begin", requests=list(requests), pids=pids)
        made.host = begun["host"]
        self._last, made.child = made.number, child
        self._all[made.number] = made
        self._forget()
        return made

    def _forget(self) -> None:
        ended = [number for number, each in self._all.items() if each.end]
        for number in ended[: max(0, len(self._all) - _MOST)]:
            del self._all[number]

    async def end(self, session: WebSession, why: str = "you ended it") -> None:
        """Take everything out, and wait for the word on it."""
        if session.end or session.child is None:
            return
        session.end = why
        await session.child.leave()
        while "report" not in session.state:
            session.changed.clear()
            await session.changed.wait()

    async def end_all(self, why: str) -> None:
        await asyncio.gather(*(self.end(each, why) for each in self.all()))
