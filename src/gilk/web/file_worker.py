# SPDX-License-Identifier: LGPL-2.1-or-later
"""The worker for files: it reads experiments and traces, which can be made so that this takes for ever, and changes
nothing.

    python -m gilk.web.file_worker READING WRITING GRANTS

The server kills the worker if it does not answer in time (timed.py).
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from gilk.api import experiments
from gilk.api.traces import DamagedColumnError, TimelineParts, timeline_parts, timeline_parts_again
from gilk.errors import GilkError, StoreError, UsageError
from gilk.render.comparison import differences
from gilk.render.comparison import to_json as comparison_json
from gilk.render.comparison import to_text as comparison_text
from gilk.render.findings import findings, of_parts
from gilk.render.findings import to_json as findings_json
from gilk.render.findings import to_text as findings_text
from gilk.render.query import answer, described, prepare
from gilk.render.query import tables as query_tables
from gilk.render.tree_parts import TreeParts
from gilk.web.checked import Check, checked, free, of_experiment, of_paths
from gilk.web.frames import ServerChannel, told
from gilk.web.grants import taken
from gilk.web.plotting import plotted
from gilk.web.rights import only_read
from gilk.web.serving import serve

Json = dict[str, Any]
_MEMORY: Final = 8 << 30  # in bytes; a file that takes more is given up
_LONGEST: Final = 2000  # the most characters of a cell
_TIMES: Final = ("start", "stop")
_MOST_OPEN: Final = 2  # the most traces that are open


def ready() -> Json:
    return {}


def experiment(path: str, text: str) -> Json:
    """The values of an experiment, or its error; and the command line and the Python that run it."""
    file = Path(path)
    same = commands(file)
    try:
        found = experiments.parse_experiment(text, file)
    except GilkError as error:
        return {"values": None, "problem": told(error), **same}
    return {"values": _values(found), "problem": None, **same}


def commands(file: Path) -> dict[str, str]:
    """The command line, and the code in Python, that run the experiment in ``file`` as the page does."""
    python = (
        f"import os\nimport gilk\n\nos.chdir({str(file.parent)!r})\nplan = gilk.load_experiment({file.name!r})\n"
        "for number in range(1, plan.repetitions + 1):\n"
        "    running = gilk.prepare_experiment(plan, number)\n    running.begin()\n"
        "    running.wait(plan.duration, lambda: False, lambda progress: None)\n    print(running.finish().counts)"
    )
    line = f"cd {shlex.quote(str(file.parent))} && {shlex.join(['gilk', 'experiment', 'run', file.name])}"
    return {"command": line, "python": python}


def _values(found: experiments.Experiment) -> Json:
    return {
        "name": found.name,
        "targets": list(found.targets),
        "machine": found.machine,
        "duration": found.duration,
        "repetitions": found.repetitions,
        "output": str(found.output) if found.output else "",
        "workload": found.workload.command if found.workload else "",
        "instruments": [
            {"name": item.name, "start": item.start, "stop": item.stop, "targets": list(item.only)}
            for item in found.items
        ],
    }


def started(
    path: str, pid: int, machine: str, workload: str, requests: list[str], times: list[list[float]]
) -> Json:  # fmt: skip
    """The text of a new experiment: these instruments, at their times or during all of it, in a process, or for pid 0
    in the kernel of ``machine``, while ``workload`` runs there; '' is no command.
    """
    text = f'# Instruments come and go while the process runs.\ntargets = ["pid:{pid}"]\nduration = "10s"\n'
    if not pid:
        text = f'# Instruments come and go.\nmachine = {json.dumps(machine)}\ntargets = ["kernel"]\n'
        text += '\n[workload]\ncommand = "true"\n' if workload else 'duration = "10s"\n'
    if workload:
        text = experiments.edit.with_value(text, Path(path), "workload", "command", workload)
    for number, request in enumerate(requests):
        values = experiments.edit.values_of(request)
        values |= {_TIMES[place]: at for place, at in enumerate(times[number] if times else ()) if at}
        text = experiments.edit.with_instrument(text, Path(path), values)
    return {"text": text}


def changed(path: str, text: str, change: Json) -> Json:
    """The text of an experiment with one change, which is one of: ``{"table", "key", "value"}``, where None removes the
    key; ``{"add", "start"}``, which adds an instrument as for `gilk run -i`; ``{"remove"}``, which removes an
    instrument by its number, from 1.
    """
    file, edit = Path(path), experiments.edit
    match change:
        case {"table": str(table), "key": str(key), "value": str() | int() | float() | None as value}:
            new = edit.with_value(text, file, table, key, value)
        case {"add": str(request), "start": int() | float() as start}:
            values = edit.values_of(request)
            new = edit.with_instrument(text, file, {**values, **({"start": start} if start else {})})
        case {"remove": int(number)}:
            new = edit.without_instrument(text, file, number)
        case _:
            raise UsageError("bad-experiment", "that is no change of an experiment")
    return {"text": new, **experiment(path, new)}


Progress = Callable[[int, int], None]
Stamp = tuple[int, int, int, int]
Tables = Mapping[str, Any]  # pyarrow's, by name


def _silent(_done: int, _of: int) -> None:
    pass


_opened_trees: dict[int, tuple[TimelineParts, TreeParts]] = {}
_opened: dict[tuple[str, Stamp], TimelineParts] = {}
_read: dict[tuple[str, Stamp], Tables] = {}


def _asked(path: str, ask: Callable[[TimelineParts], Json], progress: Progress = _silent) -> Json:
    """The answer for the file as it is now."""
    try:
        return ask(_trace(path, progress))
    except (DamagedColumnError, IndexError, ValueError):  # the index is damaged
        _opened.clear()
        return ask(timeline_parts_again(path))


def _stamp(path: str) -> Stamp:
    """The identity of the file as it is now. Raises StoreError if it is not a regular file."""
    try:
        about = os.stat(path)
    except OSError as error:
        raise StoreError("no-such-file", f"{path}: {error.strerror}") from None
    if not stat.S_ISREG(about.st_mode):
        raise StoreError("bad-trace", f"{path} is not a regular file")
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def _trace(path: str, progress: Progress) -> TimelineParts:
    stamp = _stamp(path)
    if (path, stamp) not in _opened:
        while len(_opened) >= _MOST_OPEN:
            del _opened[next(iter(_opened))]
        _opened[path, stamp] = timeline_parts(path, progress)
    return _opened[path, stamp]


def timeline(path: str, progress: Progress = _silent) -> Json:
    """Everything that a time line has besides its calls."""
    return _asked(path, lambda parts: parts.head, progress)


def tile(path: str, zoom: int, number: int, chunk: int, query: str) -> Json:
    return _asked(path, lambda parts: parts.tile(zoom, number, chunk, query))


def call(path: str, number: int) -> Json:
    return _asked(path, lambda parts: parts.call(number))


def view(path: str, begin: int, end: int) -> Json:
    return _asked(path, lambda parts: parts.view(begin, end))


def find(path: str, query: str, after: int, back: bool) -> Json:
    return _asked(path, lambda parts: parts.find(query, after, back))


def tree(path: str, node: int) -> Json:
    return _asked(path, lambda parts: _trees(parts).tree(node))


def flame(path: str, node: int) -> Json:
    return _asked(path, lambda parts: _trees(parts).flame(node))


def _trees(parts: TimelineParts) -> TreeParts:
    """The trees of a file, kept as long as the file is open."""
    known = _opened_trees.get(id(parts))
    if known is None or known[0] is not parts:
        _opened_trees.clear()
        known = _opened_trees[id(parts)] = parts, TreeParts(parts)
    return known[1]


def anomalies(path: str, least: int, limit: int) -> Json:
    """The findings of `gilk anomalies`: their values, and the text that it prints."""
    words = ["gilk", "anomalies", path, "--min-time", f"{least}ns", "--limit", str(limit)]
    return {**_asked(path, lambda parts: _findings(parts, least, limit)), "least": least, "command": shlex.join(words)}


def _findings(parts: TimelineParts, least: int, limit: int) -> Json:
    calls = of_parts(parts)
    found = findings(calls, least)
    return {**findings_json(calls, found, limit), "text": findings_text(calls, found, limit)}


def prepared(path: str, sql: str) -> Json:
    """Read the file, and make the tables that a question needs, so that its own time is not spent on that."""
    prepare(_tables(path), sql)
    return {}


def asked(path: str, sql: str, rows: int) -> Json:
    """The answer to a question in SQL, at most ``rows`` rows of it; without a question, the tables and their
    columns.
    """
    tables = _tables(path)
    words = {"command": shlex.join(["gilk", "query", path, sql or f"select * from {next(iter(tables))} limit 10"])}
    if not sql:
        return {"tables": described(tables), "columns": [], "rows": [], "more": False, **words}
    found = answer(tables, sql, rows + 1)
    cells = [[_short(each) for each in row] for row in found["rows"][:rows]]
    more = len(found["rows"]) > rows
    return {"tables": described(tables), "columns": found["columns"], "rows": cells, "more": more, **words}


def _tables(path: str) -> Tables:
    """The tables of a file as it is now, kept until another file is asked about."""
    key = path, _stamp(path)
    if key not in _read:
        _read.clear()
        _read[key] = query_tables(Path(path))
    return _read[key]


def _short(value: Any) -> Any:
    """The value of a cell; long text is cut."""
    if isinstance(value, list | dict):
        value = json.dumps(value)
    return value[:_LONGEST] + "…" if isinstance(value, str) and len(value) > _LONGEST else value


def _regular(path: str) -> Path:
    """The path, if there is a regular file. Raises StoreError."""
    if not os.path.isfile(path):
        raise StoreError("no-such-file", f"there is no file {path}")
    return Path(path)


def compared(a: str, b: str, factor: float, limit: int) -> Json:
    """The differences of two traces: their values, and the text that `gilk diff` prints."""
    found, _ = differences(_regular(a), _regular(b), (), readable=True)
    words = ["gilk", "diff", a, b, *(("--slower", f"{factor:g}") if factor else ())]
    told = {"text": comparison_text(found, limit, factor), "command": shlex.join(words)}
    return {**comparison_json(found, limit, factor), **told}


#: All questions that this worker answers.
ANSWERS: Final[Mapping[str, Callable[..., Json]]] = {
    "ready": ready, "experiment": experiment, "started": started, "changed": changed, "timeline": timeline,
    "tile": tile, "call": call, "view": view, "find": find, "compared": compared, "tree": tree, "flame": flame,
    "anomalies": anomalies, "prepared": prepared, "asked": asked, "plotted": plotted,
}  # fmt: skip

_SAMPLES: Final = (
    "timeline", "tile", "call", "view", "find", "tree", "flame", "anomalies", "prepared", "asked", "plotted",
)  # fmt: skip
CHECKS: Final[Mapping[str, Check]] = {
    "ready": free, **dict.fromkeys(("experiment", "started", "changed"), of_experiment),
    **dict.fromkeys(_SAMPLES, of_paths("path")), "compared": of_paths("a", "b"),
}  # fmt: skip


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    only_read()
    granted = taken()
    channel = ServerChannel.given()

    def tell(done: int, of: int) -> None:
        channel.send({"state": {"done": done, "of": of}})

    serve(channel, checked(granted, {**ANSWERS, "timeline": lambda path: timeline(path, tell)}, CHECKS))
