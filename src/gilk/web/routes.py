# SPDX-License-Identifier: LGPL-2.1-or-later
"""The routes. A page is a frame without data; its twin, at the same address with ``.json``, has the data that it shows.

Every request that changes something is a POST. The guard (guard.py) is passed before anything here is called.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from gilk.version import VERSION
from gilk.web import manual
from gilk.web.answers import answering, given, not_routed, whole_number
from gilk.web.assets import Assets
from gilk.web.audit import Audit
from gilk.web.children import Children, ServerChild, ToldError
from gilk.web.commands import d_commands
from gilk.web.costs import CostPages
from gilk.web.d_routes import DPages, check_text
from gilk.web.dropping import kept_records
from gilk.web.experiments import ExperimentPages
from gilk.web.following import FollowedSession
from gilk.web.grants import KERNEL, LAB, Grants, is_machine, ssh_host, title_of
from gilk.web.guard import ASSETS_PATH, KEY_PATH, LIVE_PATH, NEW_KEY_PATH, Gate, Guard
from gilk.web.instruments import InstrumentPages, requests_of
from gilk.web.keys import KEY_LASTS, Keys
from gilk.web.live import live
from gilk.web.machine import WindowMachine
from gilk.web.printed import printed
from gilk.web.reach import ReachQuestions
from gilk.web.sessions import Sessions
from gilk.web.sources import source
from gilk.web.starting import OwnStarting, Starting
from gilk.web.tables import table_routes
from gilk.web.timed import TimedWorkers
from gilk.web.traces import TracePages
from gilk.web.tracing import TracingPages

Json = dict[str, Any]
#: The addresses of pages. Each is the same frame, and the scripts decide by the address what to show.
PAGES: Final = (
    "/", "/doctor", "/help", "/help/{page:path}", "/about", "/target/{target}", "/target/{target}/symbols",
    "/target/{target}/function", "/target/{target}/d", "/target/{target}/trace", "/session/{number}",
    "/experiment/{file}", "/traces",
    "/file/{file}/timeline", "/file/{file}/tree", "/file/{file}/flame", "/file/{file}/anomalies", "/file/{file}/plot",
    "/file/{file}/sql", "/diff",
)  # fmt: skip


class Window:
    """The state of the server, and the handlers of most routes.

    ``starting`` starts its programs; by default they are children of this process.
    """

    def __init__(
        self, grants: Grants, keys: Keys, audit: Audit, assets: Assets, starting: Starting | None = None
    ) -> None:
        self.grants, self.keys, self.audit, self.assets = grants, keys, audit, assets
        self.children = Children(starting or OwnStarting(grants))
        self.reach = ReachQuestions(self.children)
        self.sessions = Sessions(self.children)
        self.following = FollowedSession(self.sessions)
        self.machine = WindowMachine(grants.machine, self.children)
        self.d = DPages(grants, self.children, self.reach, self.machine)
        self._files = TimedWorkers(self.children, "file_worker", _TOO_SLOW)
        self.traces = TracePages(grants, self.reach, self._files)
        self.tracing = TracingPages(grants, self.reach, self.sessions, audit)
        self.costs = CostPages(grants.acts, self.children)
        self.experiments = ExperimentPages(grants, self.reach, self.sessions, audit, self._files)
        self.instruments = InstrumentPages(grants, self.children, self.reach, self.sessions, audit, self.costs)
        self._workers: dict[str, ServerChild] = {}
        self.surveys: dict[str, str] = {}  # by target and image, the state of the survey

    async def _worker(self, role: str) -> ServerChild:
        """The worker for a role: one looks things up, another makes surveys, which take longer."""
        worker = self._workers.get(role)
        if worker is None or worker.process.returncode is not None:
            worker = self._workers[role] = await self.children.begun("worker")
        return worker

    async def _asked(self, what: str, *, target: str, **asked: Any) -> Json:
        """The answer of the worker that looks things up, or of the machine about its kernel. Raises ToldError,
        TargetError.
        """
        if is_machine(target):
            self.grants.check_machine(target)
            return await self.machine.ask(what, target=KERNEL, **asked)
        worker = await self._worker("look")
        return await worker.ask(what, target=target, **asked)

    async def _looked_up(self, what: str, *, target: str, **asked: Any) -> tuple[Json, str]:
        """The same, with the target's name for commands, which another worker looks up meanwhile."""
        found, reached = await asyncio.gather(self._asked(what, target=target, **asked), self.reach.target(target))
        return found, reached.name

    def start(self) -> None:
        if self.grants.machine:
            self.machine.start()

    async def stop(self) -> None:
        await self.sessions.close("the window was closed")
        await self.machine.stop()
        self.d.stop()
        self.instruments.stop()
        self.costs.stop()
        self._files.stop()
        self.reach.stop()
        for worker in self._workers.values():
            worker.kill()

    # Pages and files.

    async def page(self, _request: Request) -> Response:
        return self.assets.page()

    async def key(self, request: Request) -> Json:
        token = self.keys.exchange((await given(request, key=str))["key"])
        if token is None:
            raise ToldError("bad-key", "this address has been used, or is older than a minute", _FRESH, 401)
        self.audit.note("a browser was admitted")
        return {"token": token, "acts": self.keys.acts}

    async def new_key(self, request: Request) -> Json:
        """A key for another browser, which gets the same token, and the seconds for which it is good. The page knows
        the address: it is another one at the far end of ssh -L.
        """
        await given(request)
        self.audit.note("a key was made")
        return {"key": self.keys.make(), "seconds": int(KEY_LASTS)}

    # Twins.

    async def index(self, _request: Request) -> Json:
        return {
            **await self.reach.ask("processes"),
            **await self.reach.ask("files"),
            "version": VERSION,
            "acts": self.keys.acts,
            "kernel": self.grants.kernel,
            "machine": {"name": self.machine.name, "title": title_of(self.machine.name), "state": self.machine.state}
            if self.grants.machine
            else None,
            "experiment_folders": [str(path) for path in self.grants.experiments],
            "sessions": [session.listed() for session in self.sessions.all()],
        }

    async def doctor(self, _request: Request) -> Json:
        """The findings of `gilk doctor --json`, which runs in a process of its own because it tries things out."""
        found = await printed(self.children.starting, "doctor")
        if found is None:
            raise ToldError("doctor-failed", "gilk doctor did not answer", "run it in a terminal", 500)
        return {**found, "command": "gilk doctor"}

    async def help(self, request: Request) -> Json:
        """The list of pages; or the text of one of them, or one paragraph of it."""
        name, heading = request.query_params.get("page", ""), request.query_params.get("at", "")
        if not name:
            return {"pages": manual.pages(), "titles": manual.titles()}
        return {"page": name, "text": manual.paragraph(name, heading) if heading else manual.page(name), "at": heading}

    async def status(self, _request: Request) -> Json:
        """The line at the top of each page. ``processor``, gilk's own work, and ``probes``, the time that probes have
        taken of programs, are in seconds: whoever looks twice knows the share. ``unknown``: how many sessions have
        probes whose time is not known. ``records``: those that were not dropped, None if that is not known of all.
        """
        from gilk.api.machine import own_time  # imported here: the server begins without it

        under_way = [session for session in self.sessions.all() if not session.end]
        return {
            "sessions": len(under_way),
            "drops": sum(session.state.get("drops", 0) for session in under_way),
            "records": kept_records([session.state for session in under_way]),
            "unknown": sum(not session.state.get("cost") for session in under_way),
            "probes": round(sum((each.state.get("cost") or {}).get("ns", 0) for each in self.sessions.all()) / 1e9, 6),
            "processor": round(await asyncio.to_thread(own_time, self.children.starting.pid), 3),
            "at": round(time.monotonic(), 3),
        }

    async def about(self, _request: Request) -> Json:
        return {"version": VERSION, "licence": "LGPL-2.1-or-later", "audit": str(self.audit.path), "scripts": "ours"}

    async def target(self, request: Request) -> Json:
        identity = request.path_params["target"]
        reached = await self.reach.target(identity)
        name = reached.name
        machine = await self.machine.shown() if is_machine(name) else None
        there = machine is None or machine["state"] == "up"
        found = await self._asked("images", target=identity) if there else {"images": []}
        sessions = [each.shown() for each in self.sessions.all() if each.target == identity]
        return {
            **found,
            "id": identity,
            "name": name,
            "title": reached.title,
            "machine": machine,
            "sessions": sessions,
            "surveys": self._surveys_of(identity),
        }

    def _surveys_of(self, identity: str) -> Json:
        return {key.split("\n")[1]: state for key, state in self.surveys.items() if key.split("\n")[0] == identity}

    async def symbols(self, request: Request) -> Json:
        target, asked = request.path_params["target"], request.query_params
        image = asked.get("image", "")
        found, name = await self._looked_up(
            "symbols", target=target, image=image, query=asked.get("q", ""), sort=asked.get("sort", "match"),
            only=asked.get("only", ""), first=whole_number(asked.get("first", "0")),
        )  # fmt: skip
        survey = self.surveys.get(f"{target}\n{image}", "")
        return {**found, "image": image, "query": asked.get("q", ""), "survey": survey,
                "command": _looking("scan", name, f"{image}:*" if image else "*", "--list")}  # fmt: skip

    async def function(self, request: Request) -> Json:
        target, asked = request.path_params["target"], request.query_params
        image, address = asked.get("image", ""), asked.get("at", "")
        found, name = await self._looked_up("function", target=target, image=image, address=address)
        where = f"{image}:{address}" if image else address
        return {**found, "pattern": image, "command": _looking("cfg", name, where)}

    async def source(self, request: Request) -> Json:
        """The source lines of a function, each with the blocks that have code of it."""
        target, asked = request.path_params["target"], request.query_params
        image, address = asked.get("image", ""), asked.get("at", "")
        found = await self._asked("function", target=target, image=image, address=address)
        return await source(self.reach, found, asked.get("file", ""))

    async def session(self, request: Request) -> Json:
        return self.sessions.get(whole_number(request.path_params["number"])).shown()

    # Actions.

    async def survey(self, request: Request) -> Json:
        """Analyse an image, in a worker of its own; pages see the end of the survey when they request the symbols
        again.
        """
        asked = await given(request, target=str, image=str)
        name, key = (await self.reach.target(asked["target"])).name, f"{asked['target']}\n{asked['image']}"
        command = _looking("scan", name, *([f"{asked['image']}:*"] if asked["image"] else []))
        self.audit.note("survey", command)
        self.surveys[key] = "under way"
        try:
            if is_machine(name):
                found = await self._asked("survey", target=asked["target"], image=asked["image"])
            else:
                worker = await self._worker("survey")
                found = await worker.ask("survey", target=asked["target"], image=asked["image"])
        except ToldError as error:
            self.surveys[key] = f"{error.message} ({error.slug})"
            raise
        self.surveys[key] = "done"
        return {**found, "command": command}

    async def cancel(self, request: Request) -> Json:
        """Cancel all surveys."""
        await given(request)
        if (worker := self._workers.pop("survey", None)) is not None:
            worker.kill()
        return {"command": ""}

    async def preview(self, request: Request) -> Json:
        asked = await given(request, target=str, requests=list)
        requests = [each.text for each in requests_of(asked["requests"])]
        return await self._asked("preview", target=asked["target"], requests=requests)

    async def begin_machine(self, request: Request) -> Json:
        return await self.instruments.begin_in_machine(request, self.machine)

    async def begin_machine_c(self, request: Request) -> Json:
        return await self.instruments.begin_c_in_machine(request, self.machine)

    async def begin_machine_trace(self, request: Request) -> Json:
        return await self.tracing.begin_in_machine(request, self.machine)

    async def start_machine(self, request: Request) -> Json:
        await given(request)
        self.grants.instrumented()
        self.audit.note("machine", f"# {self.machine.name}")
        self.machine.start()
        return await self.machine.shown()

    async def end_machine(self, request: Request) -> Json:
        """End the machine, or the connection to it, and before it the session in its kernel."""
        await given(request)
        self.grants.instrumented()
        for session in self.sessions.all():
            if session.target == self.machine.name:
                await self.sessions.end(session, "the lab was ended" if session.target == LAB else "you disconnected")
        await self.machine.stop()
        self.audit.note("machine ended")
        return await self.machine.shown()

    async def begin_d(self, request: Request) -> Json:
        """Run a D program in a process."""
        asked = await given(request, target=str, text=str)
        hint = "a program in a kernel is begun at /session/machine/d"
        target = await self.reach.process(asked["target"], "that is no process", hint)
        check_text(asked["text"])
        session = self.sessions.begin_d(asked["target"], target.title, asked["text"])
        return (await self.audit.noted(session, d_commands(int(target.pid), asked["text"])["command"])).shown()

    async def begin_machine_d(self, request: Request) -> Json:
        """Run a D program in the kernel of the machine, and a command there, if there is one."""
        asked = await given(request, text=str, workload=str)
        title, text, workload = (
            title_of(self.grants.instrumented()),
            asked["text"],
            asked["workload"].strip(),
        )
        check_text(text)
        check_text(workload)
        session = self.sessions.begin_machine_d(self.machine, title, text, workload)
        return (await self.audit.noted(session, d_commands(None, text, workload, self.machine.name)["command"])).shown()

    async def end(self, request: Request) -> Json:
        asked = await given(request, session=int)
        session = self.sessions.get(asked["session"])
        await self.sessions.end(session)
        self.audit.note("end", f"# session {session.number}", str(session.restored))
        return session.shown()

    async def pause(self, request: Request) -> Json:
        """Pause a session of instruments, or let it go on."""
        asked = await given(request, session=int, paused=bool)
        session = self.sessions.get(asked["session"])
        await self.sessions.pause(session, asked["paused"])
        self.audit.note("pause" if asked["paused"] else "resume", f"# session {session.number}")
        return session.shown()

    async def leave_out(self, request: Request) -> Json:
        """End a session that is being summed up without its report."""
        asked = await given(request, session=int)
        session = self.sessions.get(asked["session"])
        await self.sessions.leave_out(session)
        self.audit.note("report left out", f"# session {session.number}")
        return session.shown()

    async def end_all(self, request: Request) -> Json:
        await given(request)
        await self.sessions.end_all("everything was taken out")
        self.audit.note("everything out")
        return {"sessions": [session.shown() for session in self.sessions.all()]}

    async def live(self, socket: WebSocket) -> None:
        await live(socket, self.keys, self.sessions)


_TOO_SLOW: Final = ToldError(
    "file-too-slow", "that file took too long to read, and was given up", "the command line takes its time", 503
)
_FRESH = (
    "`gilk web --key` prints a new address; so does the button Open in another browser, on the first page of a window "
    "that is open"
)


def _looking(what: str, name: str, *words: str) -> str:
    """The command line of `gilk scan` or `gilk cfg` for a target; about the kernel of another machine it runs there."""
    there = ["gilk", "lab", "run", "--"] if name == LAB else ["ssh", host] if (host := ssh_host(name)) else []
    return shlex.join([*there, "gilk", what, KERNEL if is_machine(name) else name, *words])


def routes(window: Window) -> list[BaseRoute]:
    twins = {
        "/index.json": window.index, "/doctor.json": window.doctor, "/help.json": window.help,
        "/status.json": window.status, "/costs.json": window.costs.page, "/about.json": window.about,
        "/target/{target}.json": window.target, "/target/{target}/symbols.json": window.symbols,
        "/target/{target}/function.json": window.function,
        "/target/{target}/source.json": window.source, "/target/{target}/d.json": window.d.page,
        "/target/{target}/trace.json": window.tracing.page, "/session/{number}.json": window.session,
        "/experiment/{file}.json": window.experiments.page, "/traces.json": window.traces.index,
        "/file/{file}/timeline.json": window.traces.timeline, "/file/{file}/timeline/tile.json": window.traces.tile,
        "/file/{file}/timeline/call.json": window.traces.call, "/file/{file}/timeline/view.json": window.traces.view,
        "/file/{file}/timeline/find.json": window.traces.find,
        "/file/{file}/timeline/progress.json": window.traces.progress, "/diff.json": window.traces.diff,
        "/file/{file}/tree.json": window.traces.tree, "/file/{file}/flame.json": window.traces.flame,
        "/file/{file}/anomalies.json": window.traces.anomalies, "/file/{file}/plot.json": window.traces.plot,
        "/file/{file}/sql.json": window.traces.sql,
    }  # fmt: skip
    asked = {
        "/target/{target}/d/check.json": window.d.check, "/target/{target}/d/words.json": window.d.words,
        "/target/{target}/d/preview.json": window.d.preview,
    }  # fmt: skip
    actions = {
        KEY_PATH: window.key, NEW_KEY_PATH: window.new_key,
        "/survey": window.survey, "/survey/cancel": window.cancel, "/preview": window.preview,
        "/session": window.instruments.begin, "/session/c": window.instruments.begin_c,
        "/c/check.json": window.instruments.check_c, "/session/d": window.begin_d, "/session/end": window.end,
        "/session/pause": window.pause, "/session/leave-out": window.leave_out, "/end": window.end_all,
        "/experiment/{file}/check.json": window.experiments.check,
        "/experiment/{file}/change.json": window.experiments.change,
        "/experiment/save": window.experiments.save, "/session/experiment": window.experiments.begin,
        "/session/trace": window.tracing.begin, "/session/machine": window.begin_machine,
        "/session/machine/c": window.begin_machine_c, "/c/names.json": window.instruments.name_c,
        "/session/machine/d": window.begin_machine_d, "/session/machine/trace": window.begin_machine_trace,
        "/machine/start": window.start_machine, "/machine/end": window.end_machine,
    }  # fmt: skip
    return [
        Route(f"{ASSETS_PATH}{{digest}}/{{name}}", window.assets.file),
        *(Route(path, answering(handler)) for path, handler in twins.items()),
        *table_routes(twins),
        Route("/session/{number}.ndjson", window.following.answer),
        *(Route(path, answering(handler), methods=["GET", "POST"]) for path, handler in asked.items()),
        *(Route(path, answering(handler), methods=["POST"]) for path, handler in actions.items()),
        *(Route(path, window.page) for path in PAGES),
        WebSocketRoute(LIVE_PATH, window.live),
    ]


def application(window: Window, gate: Gate) -> Guard:
    async def not_there(request: Request, error: Exception) -> Response:
        """The page that says so, for a browser that looks for a page; else an error."""
        looks = request.method == "GET" and "text/html" in request.headers.get("accept", "")
        if looks and isinstance(error, HTTPException) and error.status_code == 404:
            return window.assets.page(404)
        return await not_routed(request, error)

    handlers = {HTTPException: not_there, 500: not_routed}
    return Guard(Starlette(routes=routes(window), exception_handlers=handlers), gate)
