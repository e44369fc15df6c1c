# SPDX-License-Identifier: LGPL-2.1-or-later
"""The actions of the list of chosen instruments: sessions with them in processes, and C that is written for them."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request

from gilk.web.answers import given
from gilk.web.audit import Audit
from gilk.web.children import Children, ToldError
from gilk.web.commands import PaneRequest, machine_command, run_command
from gilk.web.costs import CostPages
from gilk.web.d_routes import check_text
from gilk.web.grants import KERNEL, Grants, is_machine, title_of
from gilk.web.interval import interval
from gilk.web.reach import ReachQuestions
from gilk.web.sessions import SessionMachine, Sessions
from gilk.web.timed import TimedWorkers

Json = dict[str, Any]
_WITHIN: Final = 30.0  # the seconds in which the worker must answer; it ends the compiler before that
_MOST_TEXT: Final = 64 << 10  # the most bytes of a C text
_MOST_REQUESTS: Final = 1000
_FORM: Final = "POINTS=INSTRUMENT, FUNCTIONS=@STRATEGY, or an object of request, start and stop"


class InstrumentPages:
    def __init__(
        self,
        grants: Grants,
        children: Children,
        reach: ReachQuestions,
        sessions: Sessions,
        audit: Audit,
        costs: CostPages,
    ) -> None:
        self._grants, self._reach, self._sessions, self._audit, self._costs = grants, reach, sessions, audit, costs
        slow = ToldError("c-too-slow", "the compiler took too long, and was ended", "", 503)
        self._workers = TimedWorkers(children, "c_worker", slow)

    def stop(self) -> None:
        self._workers.stop()

    async def begin(self, request: Request) -> Json:
        asked = await given(request, target=str, requests=list)
        return await self._begun(asked["target"], requests_of(asked["requests"]))

    async def begin_c(self, request: Request) -> Json:
        """The same, of instruments some of which are functions of the C text `text`. Raises ToldError `not-granted`."""
        asked = await given(request, target=str, requests=list, text=str)
        self._check_c(asked["text"])
        return await self._begun(asked["target"], requests_of(asked["requests"]), asked["text"])

    async def begin_in_machine(self, request: Request, machine: SessionMachine) -> Json:
        """Put instruments into the kernel of a machine, and run a command there, if there is one."""
        asked = await given(request, requests=list, workload=str)
        return await self._begun_in_machine(machine, requests_of(asked["requests"]), asked["workload"])

    async def begin_c_in_machine(self, request: Request, machine: SessionMachine) -> Json:
        """The same, of instruments some of which are functions of the C text `text`. Raises ToldError `not-granted`."""
        asked = await given(request, requests=list, workload=str, text=str)
        self._check_c(asked["text"])
        return await self._begun_in_machine(machine, requests_of(asked["requests"]), asked["workload"], asked["text"])

    async def name_c(self, request: Request) -> Json:
        """The functions of a C text, which is not compiled. Raises ToldError `not-granted`."""
        text = (await given(request, text=str))["text"]
        self._check_c(text)
        return await self._workers.answer("c", _WITHIN, "names", text=text)

    async def check_c(self, request: Request) -> Json:
        """The functions of a C text, and what the compiler finds wrong. Raises ToldError `not-granted`."""
        text = (await given(request, text=str))["text"]
        self._check_c(text)
        return await self._workers.answer("c", _WITHIN, "check", text=text)

    def _check_c(self, text: str) -> None:
        self._grants.check_c()
        try:
            too_long = len(text.encode()) > _MOST_TEXT
        except UnicodeEncodeError:
            raise ToldError("bad-request", "the text has half of a letter in it (a lone surrogate)") from None
        if too_long or "\0" in text:
            raise ToldError("bad-request", f"the text has more than {_MOST_TEXT >> 10} kB, or a NUL")

    async def _begun_in_machine(
        self, machine: SessionMachine, requests: list[PaneRequest], workload: str, text: str = ""
    ) -> Json:  # fmt: skip
        title = title_of(self._grants.instrumented())
        check_text(workload)
        session = self._sessions.begin_machine(machine, title, requests, workload.strip(), text)
        return (
            await self._audit.noted(session, machine_command(machine.name, requests, workload.strip(), text))
        ).shown()

    async def _begun(self, identity: str, requests: list[PaneRequest], text: str = "") -> Json:
        target = await self._reach.target(identity)
        name = target.name
        if identity.startswith("file-"):
            raise ToldError("not-running", "a file is not a running program", "start it, and choose the process")
        if name == KERNEL:
            hint = "gilk web --on here instruments it; so does gilk run"
            raise ToldError("kernel-is-shown", "this target is the kernel to look at", hint)
        if is_machine(name):
            raise ToldError("other-target", "a session in a kernel is begun at /session/machine")
        if any(each.text.startswith(f"{KERNEL}:") for each in requests):
            raise ToldError("other-target", "a point is one of the kernel", "gilk run takes it")
        self._costs.wanted()
        session = self._sessions.begin(identity, target.title, requests, text)
        command = run_command(name.removeprefix("pid:"), requests, text)
        return (await self._audit.noted(session, command)).shown()


def requests_of(found: list[Any]) -> list[PaneRequest]:
    """The requests, if they are valid: texts, or objects of `request`, `start` and `stop`. Raises ToldError
    `bad-request`.
    """
    if not 0 < len(found) <= _MOST_REQUESTS:
        raise ToldError("bad-request", f"requests are 1 to {_MOST_REQUESTS}, each {_FORM}")
    return [_request_of(each) for each in found]


def _request_of(found: Any) -> PaneRequest:
    if isinstance(found, str):
        return PaneRequest(found)
    if not isinstance(found, dict) or set(found) != {"request", "start", "stop"} or type(found["request"]) is not str:
        raise ToldError("bad-request", f"a request is {_FORM}")
    return PaneRequest(found["request"], *interval(found["request"], found["start"], found["stop"]))
