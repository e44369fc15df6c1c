# SPDX-License-Identifier: LGPL-2.1-or-later
"""The pages of experiments: a file's text and values, changes of the text, and the session that runs it.

A file is saved or run only if its text is the one that the browser knows, by a digest; otherwise it was changed
meanwhile.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from starlette.requests import Request

from gilk.web.answers import given
from gilk.web.audit import Audit
from gilk.web.children import ToldError
from gilk.web.d_routes import check_text
from gilk.web.files import MOST_EXPERIMENT, check_unchanged, digest_of
from gilk.web.grants import Grants, identity_of_file, is_machine
from gilk.web.interval import interval
from gilk.web.reach import ReachQuestions
from gilk.web.sessions import Sessions
from gilk.web.timed import TimedWorkers

Json = dict[str, Any]
_MOST_REQUESTS: Final = 100  # the most instruments of an address
_WITHIN: Final = 10.0  # the seconds that reading an experiment may take
NEW: Final = """\
# An experiment: instruments that come and go, and what runs meanwhile.
duration = "10s"

[workload]
command = "ls -l /"
stdout = "null"

[[instrument]]
points = "libc:write:entry"
instrument = "time"
"""


class ExperimentPages:
    def __init__(
        self, grants: Grants, reach: ReachQuestions, sessions: Sessions, audit: Audit, workers: TimedWorkers
    ) -> None:
        self._grants, self._reach, self._sessions, self._audit, self._workers = grants, reach, sessions, audit, workers

    async def page(self, request: Request) -> Json:
        """The file: its text, its values or the error in it, and its sessions. A file that does not exist yet has a
        text to begin with, for the instruments `i`, at their `times` (`START` or `START STOP`), in the process `for`,
        or in the kernel of a machine while `workload` runs there, if the address has them.
        """
        identity = request.path_params["file"]
        path, text = await self._read(identity)
        shown = await self._new(path, request) if text is None else text
        return {
            "id": identity, "file": str(path), "name": path.name, "exists": text is not None, "text": shown,
            "digest": digest_of(text), "acts": self._grants.acts,
            "sessions": [each.shown() for each in self._sessions.all() if each.target == identity_of_file(path)],
            **await self._look(path, shown),
        }  # fmt: skip

    async def _new(self, path: Path, request: Request) -> str:
        requests, target = request.query_params.getlist("i"), request.query_params.get("for", "")
        if not requests:
            return NEW
        times = request.query_params.getlist("times")
        name, workload = (await self._reach.target(target)).name, request.query_params.get("workload", "")
        if not (target.startswith("pid-") or is_machine(target)) or len(requests) > _MOST_REQUESTS:
            raise ToldError(
                "bad-request", f"one begins with 1 to {_MOST_REQUESTS} instruments in a process or a kernel"
            )
        check_text(workload)
        pid, workload = (0, workload) if is_machine(name) else (int(name.removeprefix("pid:")), "")
        found = await self._workers.answer(
            "experiment",
            _WITHIN,
            "started",
            path=str(path),
            pid=pid,
            machine="" if pid else name,
            workload=workload,
            requests=requests,
            times=[_times(*each) for each in zip(requests, times, strict=True)] if len(times) == len(requests) else [],
        )
        return _bounded(str(found["text"]))

    async def check(self, request: Request) -> Json:
        """The values of an experiment whose text is in the editor and not yet in the file."""
        asked = await given(request, text=str)
        path, _ = await self._read(request.path_params["file"])
        return await self._look(path, _bounded(asked["text"]))

    async def change(self, request: Request) -> Json:
        """The text with one change (file_worker.py); nothing is written."""
        asked = await given(request, text=str, change=dict)
        path, text = (await self._read(request.path_params["file"]))[0], _bounded(asked["text"])
        return await self._workers.answer(
            "experiment", _WITHIN, "changed", path=str(path), text=text, change=asked["change"]
        )

    async def save(self, request: Request) -> Json:
        """Write the file. Raises ToldError, also `file-changed`."""
        asked = await given(request, file=str, text=str, digest=str)
        text = _bounded(asked["text"])
        path = (await self._reach.ask("save", file=asked["file"], text=text, digest=asked["digest"]))["path"]
        self._audit.note("save an experiment", f"# {path}", digest_of(text))
        return {"file": path, "digest": digest_of(text)}

    async def begin(self, request: Request) -> Json:
        """Begin a run of the experiment in the file, and answer with the session. Raises ToldError, UsageError
        `file-changed`.
        """
        asked = await given(request, file=str, digest=str)
        path, text = await self._read(asked["file"])
        check_unchanged(text, asked["digest"])
        if text is None:
            raise ToldError("no-such-file", f"there is no file {path}", "save it first", 404)
        found = await self._look(path, text)
        if found["problem"] is not None:
            raise ToldError(**found["problem"])
        session = self._sessions.begin_experiment(identity_of_file(path), path, text, found)
        return (await self._audit.noted(session, found["command"])).shown()

    async def _look(self, path: Path, text: str) -> Json:
        return await self._workers.answer("experiment", _WITHIN, "experiment", path=str(path), text=text)

    async def _read(self, identity: str) -> tuple[Path, str | None]:
        """The path of an experiment, and its text, None for a file that does not exist yet. Raises ToldError."""
        found = await self._reach.ask("experiment", file=identity)
        return Path(found["path"]), found["text"]


def _times(request: str, text: str) -> list[float]:
    """The start of an instrument, and its stop if there is one, in seconds. Raises ToldError `bad-request`."""
    try:
        found = [float(word) for word in text.split()]
    except ValueError:
        found = []
    if len(found) not in (1, 2):
        raise ToldError("bad-request", f"{text!r} is not START or START STOP")
    return [each for each in interval(request, *found, *[None] * (2 - len(found))) if each is not None]


def _bounded(text: str) -> str:
    """The text, if it is not too long. Raises ToldError `bad-request`."""
    try:
        if len(text.encode()) <= MOST_EXPERIMENT:
            return text
    except UnicodeEncodeError:
        raise ToldError("bad-request", "the text has half of a letter in it (a lone surrogate)") from None
    raise ToldError("bad-request", f"the text has more than {MOST_EXPERIMENT >> 10} kB", "", 413)
