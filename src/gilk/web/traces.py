# SPDX-License-Identifier: LGPL-2.1-or-later
"""The pages of files of samples: the list of files, the time line of one, part by part, and the differences of two."""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request

from gilk.web.answers import while_there, whole_number
from gilk.web.children import ToldError
from gilk.web.grants import Grants
from gilk.web.reach import ReachQuestions
from gilk.web.timed import TimedWorkers

Json = dict[str, Any]
_OPENS_WITHIN: Final = 600.0  # in seconds, for reading a file; ten million calls take minutes on a slow machine
_LONGEST: Final = 200  # the most characters of a search
_MOST_FOUND: Final = 100  # the most differences of each sort
_ANSWERS_WITHIN: Final = 60.0  # the seconds that a question in SQL may take, once the file is read
_MOST_ROWS: Final = 1000  # the most rows of an answer
_LONGEST_SQL: Final = 4000  # the most characters of a question
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
#: The choices of a plot, the usual one first; '' is what suits the kind (render/plot.py, render/plot_data.py).
PLOTS: Final = {
    "kind": ("scatter", "step", "histogram", "spectrum"),
    "by": ("", "process", "thread", "function", "point", "all"),
    "values": ("", "duration", "interval", "value", "number"),
    "scale": ("", "log", "linear"),
}


class TracePages:
    def __init__(self, grants: Grants, reach: ReachQuestions, workers: TimedWorkers) -> None:
        self._grants, self._reach, self._workers = grants, reach, workers

    async def index(self, _request: Request) -> Json:
        """The files of samples in the given directories, the newest first."""
        return {**await self._reach.ask("samples"), "folders": [str(each) for each in self._grants.folders]}

    async def timeline(self, request: Request) -> Json:
        path = await self._file(request.path_params["file"])
        found = await while_there(request, self._asked("timeline", path=str(path)))
        python = f"import gilk\n\ntrace = gilk.read({str(path)!r})\nprint(trace.flow.table)"
        same = {"command": shlex.join(["gilk", "show", str(path), "--html"]), "python": python}
        return {**found, "id": request.path_params["file"], "file": str(path), "name": path.name, **same}

    async def progress(self, request: Request) -> Json:
        """The number of samples that have been read for an index that is being made, and that of all; both 0 if none
        is.
        """
        await self._file(request.path_params["file"])
        return {"done": 0, "of": 0, **self._workers.said.get("trace", {})}

    async def tile(self, request: Request) -> Json:
        asked = request.query_params
        numbers = {name: _number(asked.get(name, "0")) for name in ("zoom", "number", "chunk")}
        path = await self._file(request.path_params["file"])
        return await self._asked("tile", path=str(path), **numbers, query=_query(asked.get("q", "")))

    async def call(self, request: Request) -> Json:
        path = await self._file(request.path_params["file"])
        return await self._asked("call", path=str(path), number=whole_number(request.query_params.get("call", "0")))

    async def view(self, request: Request) -> Json:
        asked, path = request.query_params, await self._file(request.path_params["file"])
        begin, end = (_number(asked.get(name, "0")) for name in ("from", "to"))
        return await self._asked("view", path=str(path), begin=begin, end=end)

    async def find(self, request: Request) -> Json:
        asked, path = request.query_params, await self._file(request.path_params["file"])
        query, after = _query(asked.get("q", "")), _number(asked.get("after", "-1"))
        return await self._asked("find", path=str(path), query=query, after=after, back=asked.get("back", "") == "1")

    async def diff(self, request: Request) -> Json:
        """The findings of `gilk diff`."""
        asked = request.query_params
        a, b = [await self._file(asked.get(side, "")) for side in ("a", "b")]
        factor = _factor(asked.get("slower", "0"))
        found = await self._asked("compared", a=str(a), b=str(b), factor=factor, limit=_MOST_FOUND)
        return {**found, "a": {"id": asked.get("a"), "name": a.name}, "b": {"id": asked.get("b"), "name": b.name}}

    async def tree(self, request: Request) -> Json:
        path, node = await self._file(request.path_params["file"]), _number(request.query_params.get("node", "-1"))
        found = await while_there(request, self._asked("tree", path=str(path), node=node))
        python = f"import gilk\n\nflow = gilk.read({str(path)!r}).flow\nprint(flow.table, flow.self_times)"
        return {**self._named(request, path), **found, **_same(["show", str(path), "--tree"], python)}

    async def flame(self, request: Request) -> Json:
        path, node = await self._file(request.path_params["file"]), _number(request.query_params.get("node", "-1"))
        found = await while_there(request, self._asked("flame", path=str(path), node=node))
        return {**self._named(request, path), **found, **_same(["show", str(path), "--flame", "flame.svg"])}

    async def anomalies(self, request: Request) -> Json:
        path, least = await self._file(request.path_params["file"]), _number(request.query_params.get("least", "1000"))
        if least < 0:
            raise ToldError("bad-request", "a time is not less than nothing")
        asking = self._workers.answer("ask", _OPENS_WITHIN, "anomalies", path=str(path), least=least, limit=_MOST_FOUND)
        return {**self._named(request, path), **await while_there(request, asking)}

    async def plot(self, request: Request) -> Json:
        """A picture of `gilk plot` as numbers."""
        path, asked = await self._file(request.path_params["file"]), request.query_params
        chosen = {name: asked.get(name, words[0]) for name, words in PLOTS.items()}
        wrong = [value for name, value in chosen.items() if value not in PLOTS[name]]
        if wrong:
            raise ToldError("bad-request", f"{wrong[0][:40]!r} is no choice of a plot")
        of = _query(asked.get("of", "")).split()
        asking = self._workers.answer("ask", _OPENS_WITHIN, "plotted", path=str(path), **chosen, of=of)
        return {**self._named(request, path), "asked": {**chosen, "of": of}, **await while_there(request, asking)}

    async def sql(self, request: Request) -> Json:
        path, sql = await self._file(request.path_params["file"]), request.query_params.get("q", "")
        if len(sql) > _LONGEST_SQL:
            raise ToldError("bad-request", f"a question has at most {_LONGEST_SQL} letters", "gilk query takes any")
        return {**self._named(request, path), "sql": sql, **await while_there(request, self._answered(path, sql))}

    async def _answered(self, path: Path, sql: str) -> Json:
        """The answer to a question. The reading of the file does not count for its time."""
        await self._workers.answer("ask", _OPENS_WITHIN, "prepared", path=str(path), sql=sql)
        return await self._workers.answer("ask", _ANSWERS_WITHIN, "asked", path=str(path), sql=sql, rows=_MOST_ROWS)

    def _named(self, request: Request, path: Path) -> Json:
        return {"id": request.path_params["file"], "file": str(path), "name": path.name}

    async def _file(self, identity: str) -> Path:
        path = await self._reach.file(identity)
        if path.suffix != ".parquet":
            raise ToldError("not-samples", f"{path} is no file of samples (NAME.parquet)", "gilk run -o makes one")
        return path

    async def _asked(self, what: str, **asked: Any) -> Json:
        return await self._workers.answer("trace", _OPENS_WITHIN, what, **asked)


def _same(words: list[str], python: str = "") -> Json:
    """The gilk command with the arguments ``words``, and the code in Python, that give the same answer as the page."""
    return {"command": shlex.join(["gilk", *words]), **({"python": python} if python else {})}


def _number(text: str) -> int:
    """The number in ``text``. Raises ToldError `bad-request`."""
    if _NUMBER.fullmatch(text) is None:
        raise ToldError("bad-request", f"{text[:40]!r} is no number")
    return int(text)


def _query(text: str) -> str:
    """The search text, if it is not too long. Raises ToldError `bad-request`."""
    if len(text) > _LONGEST:
        raise ToldError("bad-request", f"a search has at most {_LONGEST} letters")
    return text


def _factor(text: str) -> float:
    """The factor in ``text``. Raises ToldError `bad-request`."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < 1e9:
        raise ToldError("bad-request", f"{text[:40]!r} is no factor")
    return found
