# SPDX-License-Identifier: LGPL-2.1-or-later
"""The page on which a trace of a process is begun: which functions are followed, from which event to which.

The window chooses the file's name, in the one directory that was granted for traces; the browser has no say in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request

from gilk.errors import GilkError, UsageError
from gilk.spec import event
from gilk.web.answers import given, whole_number
from gilk.web.audit import Audit
from gilk.web.children import ToldError
from gilk.web.d_routes import check_text
from gilk.web.files import plain
from gilk.web.frames import told
from gilk.web.grants import Grants, is_machine, title_of
from gilk.web.machine import WindowMachine
from gilk.web.reach import ReachedTarget, ReachQuestions
from gilk.web.sessions import Sessions
from gilk.web.trace_asked import KernelTraceAsked, TraceAsked

Json = dict[str, Any]
_MOST: Final = 100  # globs
_DEEPEST: Final = 1000
#: These are about gilk's own process, or about the machine's keyboard: neither is the window's.
_OTHERS: Final = (event.Signal, event.Key)


class TracingPages:
    def __init__(self, grants: Grants, reach: ReachQuestions, sessions: Sessions, audit: Audit) -> None:
        self._grants, self._reach, self._sessions, self._audit = grants, reach, sessions, audit

    async def page(self, request: Request) -> Json:
        """The process, and the trace of the address as a command and in Python; or the problem that it has. For a
        machine the same about its kernel.
        """
        if is_machine(request.path_params["target"]):
            return await self._page_of_machine(request)
        identity, query = request.path_params["target"], request.query_params
        target = await self._process(identity)
        asked = _checked(
            query.get("start", "now"), query.get("stop", "for:2s"), query.getlist("scope"), query.getlist("skip"),
            whole_number(query.get("depth", "0")), query.get("all", "") == "1",
        )  # fmt: skip
        file, pid = self._example(target.title), target.pid
        same = {"command": asked.command(pid, file), "python": asked.python(pid, file)}
        return {**self._about(identity, target.title), "pid": int(pid), "problem": _problem(asked), **same}

    async def _page_of_machine(self, request: Request) -> Json:
        identity, query = request.path_params["target"], request.query_params
        title = (await self._reach.target(identity)).title
        asked = _checked_of_kernel(
            query.get("start", "now"), query.get("stop", "for:2s"), query.getlist("scope"),
            whole_number(query.get("depth", "0")), query.get("workload", ""), identity,
        )  # fmt: skip
        file = self._example(identity)
        same = {"command": asked.command(file), "python": asked.python(file)}
        return {**self._about(identity, title), "problem": _problem(asked), **same}

    def _about(self, identity: str, title: str) -> Json:
        folder = self._grants.traces
        return {"id": identity, "title": title, "acts": self._grants.acts, "folder": str(folder or "")}

    def _example(self, title: str) -> Path:
        """The file that a shown command names."""
        return (self._grants.traces or Path()) / f"{plain(title)}.parquet"

    async def begin_in_machine(self, request: Request, machine: WindowMachine) -> Json:
        """Trace the kernel of a machine into a new file, while a command runs there, if there is one."""
        found = await given(request, start=str, stop=str, scope=list, depth=int, workload=str)
        title = title_of(self._grants.instrumented())
        asked = _checked_of_kernel(
            found["start"], found["stop"], found["scope"], found["depth"], found["workload"], machine.name
        )  # fmt: skip
        file = await self._new(asked, machine.name)
        session = self._sessions.begin_machine_trace(machine, title, asked, file)
        return (await self._audit.noted(session, asked.command(file))).shown()

    async def _new(self, asked: TraceAsked | KernelTraceAsked, name: str) -> Path:
        """The file for a trace. Raises ToldError if its events are wrong, or there is no directory for it."""
        if (problem := _problem(asked)) is not None:
            raise ToldError(**problem)
        return Path((await self._reach.ask("new_trace", title=name))["path"])

    async def begin(self, request: Request) -> Json:
        """Trace a process into a new file. Raises ToldError."""
        found = await given(request, target=str, start=str, stop=str, scope=list, skip=list, depth=int, all=bool)
        target = await self._process(found["target"])
        asked = _checked(found["start"], found["stop"], found["scope"], found["skip"], found["depth"], found["all"])
        file = await self._new(asked, target.title)
        session = self._sessions.begin_trace(found["target"], target.title, asked, file)
        return (await self._audit.noted(session, asked.command(target.pid, file))).shown()

    async def _process(self, identity: str) -> ReachedTarget:
        return await self._reach.process(
            identity, "the window traces processes and the kernel of --on", "gilk web --on here, or lab"
        )


def _checked(
    start: str, stop: str, scope: Sequence[Any], skip: Sequence[Any], depth: int, everything: bool
) -> TraceAsked:
    """The request, with the types and sizes of its parts checked. Raises ToldError `bad-request`."""
    if len(scope) + len(skip) > _MOST or not all(isinstance(each, str) for each in (*scope, *skip)):
        raise ToldError("bad-request", f"scope and skip are texts, at most {_MOST}")
    if not 0 <= depth <= _DEEPEST:
        raise ToldError("bad-request", f"a depth is 0 to {_DEEPEST}")
    for text in (start, stop, *scope, *skip):
        check_text(text)
    return TraceAsked(start, stop, tuple(scope), tuple(skip), depth, everything)


def _checked_of_kernel(
    start: str, stop: str, scope: Sequence[Any], depth: int, workload: str, machine: str
) -> KernelTraceAsked:  # fmt: skip
    """The same for a trace of a kernel. Raises ToldError `bad-request`."""
    checked = _checked(start, stop, scope, (), depth, everything=False)
    check_text(workload)
    return KernelTraceAsked(checked.start, checked.stop, checked.scope, checked.depth, workload.strip(), machine)


def _problem(asked: TraceAsked | KernelTraceAsked) -> Json | None:
    """The first error in the events of the request; None if there is none."""
    for text in (asked.start, asked.stop):
        try:
            found = event.parse(text)
            if isinstance(asked, KernelTraceAsked):
                event.check_of_kernel(found)
        except GilkError as error:
            return told(error)
        if isinstance(found, _OTHERS):
            message = f"{text}: the window waits for no signals and no keys"
            return told(UsageError("not-granted", message, "gilk trace does"))
    return None
