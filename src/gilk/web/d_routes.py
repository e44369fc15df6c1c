# SPDX-License-Identifier: LGPL-2.1-or-later
"""The page on which a D program is written: its JSON twins, which are requested while the user types.

Each question has a time limit (timed.py).
"""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request

from gilk.web.answers import given, whole_number
from gilk.web.children import Children, ToldError
from gilk.web.commands import d_commands
from gilk.web.d_limits import TOO_SLOW
from gilk.web.grants import Grants, is_machine
from gilk.web.machine import WindowMachine
from gilk.web.reach import ReachedTarget, ReachQuestions
from gilk.web.timed import TimedWorkers

Json = dict[str, Any]
_WITHIN: Final = {"check": 5.0, "words": 5.0, "preview": 60.0}  # in seconds, by question


class DPages:
    """The handlers. ``machine``: the one whose kernel is instrumented."""

    def __init__(self, grants: Grants, children: Children, reach: ReachQuestions, machine: WindowMachine) -> None:
        self._grants, self._reach, self._machine = grants, reach, machine
        slow = ToldError(TOO_SLOW.slug, TOO_SLOW.message, TOO_SLOW.hint, 503)
        self._workers = TimedWorkers(children, "d_worker", slow)

    def stop(self) -> None:
        self._workers.stop()

    # Twins.

    async def page(self, request: Request) -> Json:
        """The page itself: its process or kernel, and the program in its address."""
        identity, text = request.path_params["target"], request.query_params.get("text", "")
        target = await self._target(identity)
        pid = _pid(target)
        check_text(text)
        if pid is None:
            await self._machine.ask("state")  # an error says that it is not up
        facts = {"id": identity, "title": target.title, "pid": pid}
        facts |= {"acts": self._grants.acts, "text": text}
        return {**facts, **d_commands(pid, text, machine=self._machine.name)}

    async def check(self, request: Request) -> Json:
        target = await self._target(request.path_params["target"])
        asked = await self._asked(request, target)
        found = await self._answer(target, "check", text=asked["text"])
        return {
            **found,
            **d_commands(_pid(target), asked["text"], asked.get("workload", "").strip(), self._machine.name),
        }

    async def words(self, request: Request) -> Json:
        target = await self._target(request.path_params["target"])
        asked = await self._asked(request, target, at=int)
        return await self._answer(target, "words", text=asked["text"], at=asked["at"])

    async def preview(self, request: Request) -> Json:
        target = await self._target(request.path_params["target"])
        return await self._answer(target, "preview", text=(await self._asked(request, target))["text"])

    async def _target(self, identity: str) -> ReachedTarget:
        """The process that a D program is for, or the kernel of a machine. Raises ToldError."""
        if is_machine(identity):
            return await self._reach.target(identity)
        hint = "a kernel that the window instruments is another target (gilk web --on here, or lab)"
        refusal = "the window runs D programs in processes and on the machine of --on"
        return await self._reach.process(identity, refusal, hint)

    async def _asked(self, request: Request, target: ReachedTarget, **more: type) -> Json:
        """The ``text`` of a request, the position ``at`` in it, and the ``workload`` of a machine: from the address, or
        from the body of a POST, which a long program needs. Raises ToldError.
        """
        if is_machine(target.name):
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

    async def _answer(self, target: ReachedTarget, what: str, **asked: Any) -> Json:
        """The answer of the machine or of a worker. Previews, which take longer, have a worker of their own."""
        if is_machine(target.name):
            return await self._machine.ask(f"d-{what}", **asked)
        role = "preview" if what == "preview" else "type"
        return await self._workers.answer(role, _WITHIN[what], what, target=target.identity, **asked)


def _pid(target: ReachedTarget) -> int | None:
    """The number of a process; None for the kernel of a machine."""
    return None if is_machine(target.name) else int(target.pid)


def check_text(text: str) -> None:
    """Raises ToldError `bad-request` for a text that no file can contain."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ToldError("bad-request", "the program has half of a letter in it (a lone surrogate)") from None
    if "\0" in text:
        raise ToldError("bad-request", "the program has a NUL in it, which no command line can have")
