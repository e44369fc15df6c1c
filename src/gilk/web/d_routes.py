# SPDX-License-Identifier: LGPL-2.1-or-later
"""The page on which a D program is written: its JSON twins, which are requested while the user types.

Each question has a time limit (timed.py).
"""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request

from gilk.web.answers import given, whole_number
from gilk.web.children import ToldError
from gilk.web.commands import d_commands
from gilk.web.d_limits import TOO_SLOW
from gilk.web.grants import Grants, born, is_machine, title_of
from gilk.web.machine import WindowMachine
from gilk.web.timed import TimedWorkers

Json = dict[str, Any]
_WITHIN: Final = {"check": 5.0, "words": 5.0, "preview": 60.0}  # in seconds, by question


class DPages:
    """The handlers. ``grants``: the processes within reach; ``machine``: the one whose kernel is
    instrumented."""

    def __init__(self, grants: Grants, machine: WindowMachine) -> None:
        self._grants, self._machine = grants, machine
        slow = ToldError(TOO_SLOW.slug, TOO_SLOW.message, TOO_SLOW.hint, 503)
        self._workers = TimedWorkers("gilk.web.d_worker", slow)

    def stop(self) -> None:
        self._workers.stop()

    # Twins.

    async def page(self, request: Request) -> Json:
        """The page itself: its process or kernel, and the program in its address."""
        identity, text = request.path_params["target"], request.query_params.get("text", "")
        pid = self._pid(identity)
        check_text(text)
        if pid is None:
            await self._machine.ask("state")  # an error says that it is not up
        facts = {"id": identity, "title": title_of(identity if pid is None else f"pid:{pid}"), "pid": pid}
        facts |= {"acts": self._grants.acts, "text": text}
        return {**facts, **d_commands(pid, text, machine=self._machine.name)}

    async def check(self, request: Request) -> Json:
        asked = await self._asked(request)
        found = await self._answer(request, "check", text=asked["text"])
        pid = self._pid(request.path_params["target"])
        return {**found, **d_commands(pid, asked["text"], asked.get("workload", "").strip(), self._machine.name)}

    async def words(self, request: Request) -> Json:
        asked = await self._asked(request, at=int)
        return await self._answer(request, "words", text=asked["text"], at=asked["at"])

    async def preview(self, request: Request) -> Json:
        return await self._answer(request, "preview", text=(await self._asked(request))["text"])

    def _pid(self, identity: str) -> int | None:
        """The process that a D program is for; None for the kernel of a machine. Raises TargetError, ToldError."""
        if is_machine(self._grants.target(identity)):
            return None
        hint = "a kernel that the window instruments is another target (gilk web --on here, or lab)"
        return int(
            self._grants.process(identity, "the window runs D programs in processes and on the machine of --on", hint)
        )

    async def _asked(self, request: Request, **more: type) -> Json:
        """The ``text`` of a request, the position ``at`` in it, and the ``workload`` of a machine: from the address, or
        from the body of a POST, which a long program needs. Raises ToldError, TargetError.
        """
        if self._pid(request.path_params["target"]) is None:
            more["workload"] = str
        if request.method == "POST":
            found = await given(request, text=str, **more)
        else:
            query = request.query_params
            found = {name: query.get(name, "") for name in ("text", "workload")}
            found["at"] = whole_number(query.get("at", "0"))
        check_text(found["text"])
        check_text(found.get("workload", ""))
        return found

    async def _answer(self, request: Request, what: str, **asked: Any) -> Json:
        """The answer of the machine or of a worker. Previews, which take longer, have a worker of their own."""
        identity = request.path_params["target"]
        pid = self._pid(identity)
        if pid is None:
            return await self._machine.ask(f"d-{what}", **asked)
        role = "preview" if what == "preview" else "type"
        return await self._workers.answer(role, _WITHIN[what], what, pid=pid, born=born(identity), **asked)


def check_text(text: str) -> None:
    """Raises ToldError `bad-request` for a text that no file can contain."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ToldError("bad-request", "the program has half of a letter in it (a lone surrogate)") from None
    if "\0" in text:
        raise ToldError("bad-request", "the program has a NUL in it, which no command line can have")
