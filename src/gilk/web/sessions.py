# SPDX-License-Identifier: LGPL-2.1-or-later
"""The sessions that this window has begun, each in a child process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Protocol

from gilk.values import dataclass
from gilk.web.children import Children, ToldError
from gilk.web.commands import PaneRequest, d_commands, machine_command, machine_python, run_command, run_python, values
from gilk.web.grants import identity_of_file, number_and_birth
from gilk.web.trace_asked import KernelTraceAsked, TraceAsked

Json = dict[str, Any]
_LISTED: Final = ("hits", "records", "drops", "seconds", "paused")  # the parts of a state that lists have
_LISTED_REQUESTS: Final = 20
_LISTED_LETTERS: Final = 500  # of a request
_MOST = 64  # the most sessions, including those that have ended, of which the oldest are forgotten


class SessionChild(Protocol):
    """The process that a session runs in."""

    async def leave(self) -> None:
        """Have the session end: everything is taken out, and a report is sent."""

    async def leave_out(self) -> None:
        """Have the session, whose file is complete, end without a report."""

    async def ask(self, what: str, **given: Any) -> Json:
        """The answer to a question. Raises ToldError."""


class SessionMachine(SessionChild, Protocol):
    """A machine that has sessions. ``name``: as for --on."""

    name: str

    async def begin(self, session: WebSession, what: str, **given: Any) -> Json:
        """Run a session: of instruments (``session``), a D program (``program``) or a trace (``trace``).
        Raises ToldError; then nothing has changed.
        """


@dataclass(eq=False)
class WebSession:
    """A session. ``requests``: the instruments, or a D program. ``command`` and ``python`` do the same. ``state`` is
    the last one that its child has sent. ``end``: '' while the session goes on, otherwise the reason for its end;
    ``over`` is the reason to give if it ends by itself, ``lost`` the one if it ends without a report.
    """

    number: int
    target: str
    title: str
    requests: tuple[str, ...]
    command: str
    python: str
    since: float
    state: Json = field(default_factory=dict)
    end: str = ""
    over: str = "its target has ended"
    lost: str = "its process was killed; gilk's keeper has taken everything out"
    revision: int = 0
    host: int = 0  # the pid of its child
    child: SessionChild | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    leaving: asyncio.Task[None] | None = None  # of its child, once it is to end

    def told(self, state: Json) -> None:
        self.over = state.get("over", self.over)
        self.state = {**self.state, **state}
        self.revision += 1
        self.changed.set()

    def gone(self) -> None:
        if self.state.setdefault("report", None) is None and not self.is_out:
            self.end = self.end or self.lost
        self.end = self.end or self.over
        self.told(self.state)

    @property
    def is_out(self) -> bool:
        """Whether it is known that everything has been taken out."""
        return self.state.get("out") is not None or self.state.get("report") is not None

    @property
    def restored(self) -> bool | None:
        """Whether the code is what it was; None if that is not known."""
        word: bool | None = (self.state.get("report") or self.state.get("out") or {}).get("restored")
        return word

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, or the session is over."""
        while "report" not in self.state and not holds():
            self.changed.clear()
            await self.changed.wait()

    async def changed_since(self, revision: int) -> None:
        """Wait until there is news."""
        while self.revision == revision:
            self.changed.clear()
            await self.changed.wait()

    def shown(self) -> Json:
        facts = {
            "number": self.number, "target": self.target, "title": self.title, "requests": list(self.requests),
            "since": self.since, "end": self.end, "revision": self.revision, "host": self.host, "command": self.command,
            "python": self.python,
        }  # fmt: skip
        return {**facts, **self.state}

    def listed(self) -> Json:
        """The parts that a list of sessions shows: not what it printed or gathered, as a page asks every two
        seconds. ``requests`` are the first ones, and of a D program its first letters.
        """
        facts = {
            "number": self.number, "target": self.target, "title": self.title, "since": self.since, "end": self.end,
            "requests": [each[:_LISTED_LETTERS] for each in self.requests[:_LISTED_REQUESTS]],
            "more": max(0, len(self.requests) - _LISTED_REQUESTS), "points": len(self.state.get("counts", ())),
            "out": self.is_out, "share": (self.state.get("cost") or {}).get("share"),
        }  # fmt: skip
        return facts | {name: self.state[name] for name in _LISTED if name in self.state}


_WORKLOAD_ENDED = "its command has ended"
_MACHINE_ENDED = "the machine has ended, or the connection to it"


def _pid(target: str) -> str:
    """The pid in a process's identity (grants.py)."""
    return target.split("-")[1]


def _born(target: str) -> dict[int, int]:
    """The birth of the process with that identity, by its number."""
    return dict((number_and_birth(target),))


class Sessions:
    def __init__(self, children: Children) -> None:
        self._children = children
        self._all: dict[int, WebSession] = {}
        self._last = 0

    def all(self) -> list[WebSession]:
        """All sessions, the newest first."""
        return list(reversed(self._all.values()))

    @property
    def under_way(self) -> int:
        """How many sessions go on."""
        return sum(not each.end for each in list(self._all.values()))

    def get(self, number: int) -> WebSession:
        """The session with that number. Raises ToldError `no-such-session`."""
        try:
            return self._all[number]
        except KeyError:
            hint = "the overview lists those there are"
            raise ToldError("no-such-session", f"there is no session {number}", hint, 404) from None

    async def begin(self, target: str, title: str, requests: Sequence[PaneRequest], text: str = "") -> WebSession:
        """A session that puts instruments in. ``text``: the C text whose functions some of them are, or ''. Raises
        ToldError; then nothing has changed.
        """
        pid = _pid(target)
        command, python = run_command(pid, requests, text), run_python(pid, requests)
        names = tuple(each.text for each in requests)
        made = WebSession(self._last + 1, target, title, names, command, python, time.time())
        given: Json = {"requests": values(requests), "text": text, "processes": _born(target)}
        return await self._begun(made, "host", **given)

    async def begin_machine(
        self, machine: SessionMachine, title: str, requests: Sequence[PaneRequest], workload: str, text: str = ""
    ) -> WebSession:  # fmt: skip
        """A session in the kernel of a machine. ``workload``: a command for its shell, at whose end the session ends,
        or ''. ``text``: as in `begin`. Raises ToldError; then nothing has changed.
        """
        made = WebSession(
            self._last + 1, machine.name, title, tuple(each.text for each in requests),
            machine_command(machine.name, requests, workload, text), machine_python(machine.name, requests, workload),
            time.time(), over=_WORKLOAD_ENDED, lost=_MACHINE_ENDED,
        )  # fmt: skip
        if workload:
            made.state = {"workload": workload, "printed": "", "bytes": 0}
        begun = await machine.begin(made, "session", requests=values(requests), workload=workload, text=text)
        self._keep(made, begun["host"], machine)
        return made

    async def begin_d(self, target: str, title: str, text: str) -> WebSession:
        """A session that runs a D program. Raises ToldError; then nothing has changed."""
        pid = _pid(target)
        same = d_commands(int(pid), text)
        made = WebSession(self._last + 1, target, title, (text,), same["command"], same["python"], time.time())
        made.state = {"printed": "", "bytes": 0, "aggregations": []}  # pages recognise a D program by this member
        return await self._begun(made, "d_host", text=text, processes=_born(target))

    async def begin_machine_d(self, machine: SessionMachine, title: str, text: str, workload: str) -> WebSession:
        """A D program in the kernel of a machine; for ``workload`` see `begin_machine`.

        Raises ToldError; then nothing has changed.
        """
        same = d_commands(None, text, workload, machine.name)
        made = WebSession(
            self._last + 1, machine.name, title, (text,), same["command"], same["python"], time.time(),
            over="it has run to its end", lost=_MACHINE_ENDED,
        )  # fmt: skip
        made.state = {"printed": "", "bytes": 0, "aggregations": [], "workload": workload}
        begun = await machine.begin(made, "program", text=text, workload=workload)
        self._keep(made, begun["host"], machine)
        return made

    async def begin_experiment(self, identity: str, file: Path, text: str, found: Json) -> WebSession:
        """A session that runs an experiment. ``text`` is the content of its file, ``found`` what file_worker.py has
        found in it. Raises ToldError; then nothing has changed.
        """
        names = tuple(each["name"] for each in found["values"]["instruments"])
        made = WebSession(
            self._last + 1, identity, file.name, names, found["command"], found["python"], time.time(),
            over="it has run to its end",
        )  # fmt: skip
        made.state = {"printed": "", "bytes": 0, "planned": found["values"], "folder": str(file.parent)}
        given = {"text": text, "file": file.name, "directory": str(file.parent)}
        return await self._begun(made, "experiment_host", **given)

    async def begin_trace(self, target: str, title: str, asked: TraceAsked, file: Path) -> WebSession:
        """Trace a process into a file. Raises ToldError; then nothing has changed."""
        pid = _pid(target)
        what = f"trace from {asked.start} to {asked.stop}"
        made = WebSession(
            self._last + 1, target, title, (what,), asked.command(pid, file), asked.python(pid, file), time.time(),
            over="the trace has come to its end",
        )  # fmt: skip
        made.state = {"trace": {"id": identity_of_file(file), "name": file.name}}
        given: Json = {"start": asked.start, "stop": asked.stop, "scope": list(asked.scope), "skip": list(asked.skip)}
        given |= {"everything": asked.everything, "depth": asked.depth, "file": str(file)}
        return await self._begun(made, "trace_host", **given, processes=_born(target))

    async def begin_machine_trace(
        self, machine: SessionMachine, title: str, asked: KernelTraceAsked, file: Path
    ) -> WebSession:  # fmt: skip
        """Trace the kernel of a machine into a file. Raises ToldError; then nothing has changed."""
        made = WebSession(
            self._last + 1, machine.name, title, (f"trace from {asked.start} to {asked.stop}",), asked.command(file),
            asked.python(file), time.time(), over="the trace has come to its end", lost=_MACHINE_ENDED,
        )  # fmt: skip
        made.state = {"trace": {"id": identity_of_file(file), "name": file.name}}
        if asked.workload:
            made.state |= {"workload": asked.workload, "printed": "", "bytes": 0}
        given: Json = {"start": asked.start, "stop": asked.stop, "scope": list(asked.scope), "depth": asked.depth}
        begun = await machine.begin(made, "trace", **given, workload=asked.workload, file=str(file))
        self._keep(made, begun["host"], machine)
        return made

    async def _begun(self, made: WebSession, program: str, **given: Any) -> WebSession:
        child = await self._children.begun(program, made.told, made.gone)
        begun = await child.ask("begin", **given)
        self._keep(made, begun["host"], child)
        return made

    def _keep(self, made: WebSession, host: int, child: SessionChild) -> None:
        made.number = self._last = self._last + 1
        made.host, made.child = host, child
        self._all[made.number] = made
        self._forget()

    def _forget(self) -> None:
        ended = [number for number, each in self._all.items() if each.end]
        for number in ended[: max(0, len(self._all) - _MOST)]:
            del self._all[number]

    async def pause(self, session: WebSession, paused: bool) -> None:
        """Let no probe of a session fire, or let them fire again. Raises ToldError; then nothing has changed."""
        if session.child is None or session.end or "report" in session.state or session.state.get("out"):
            raise ToldError("session-over", f"session {session.number} is over", "begin another one", 409)
        if not session.state.keys().isdisjoint(("aggregations", "planned", "trace")):
            hint = "take it out; on its page, Pause the view lets the page stand still"
            raise ToldError("not-pausable", "only sessions of instruments are paused", hint, 409)
        session.told(await session.child.ask("pause", paused=paused))

    async def end(self, session: WebSession, why: str = "you ended it") -> None:
        """Take everything out. The report of a trace may come later."""
        if session.child is None or "report" in session.state:
            return
        repeats = "planned" in session.state  # then it is out between its repetitions, too
        if session.leaving is None:
            session.end = "" if session.is_out and not repeats else why
            session.leaving = asyncio.create_task(session.child.leave())
        await session.until(lambda: session.is_out and "trace" in session.state)

    async def end_all(self, why: str) -> None:
        await asyncio.gather(*(self.end(each, why) for each in self.all()))

    async def leave_out(self, session: WebSession) -> None:
        """End a session that is summed up without its report, as soon as its file is complete. Raises ToldError
        `goes-on`.
        """
        if session.child is None or not session.is_out:
            raise ToldError("goes-on", "the session goes on", "take it out first", 409)
        await session.until(lambda: bool(session.state.get("summing", {}).get("filed")))
        if "report" not in session.state:
            await session.child.leave_out()
            await session.until(lambda: False)

    async def close(self, why: str) -> None:
        """Take everything out, and complete the files of all sessions; reports that take longer are left out."""
        await self.end_all(why)
        await asyncio.gather(*(self.leave_out(each) for each in self.all() if "report" not in each.state))
