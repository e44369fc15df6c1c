# SPDX-License-Identifier: LGPL-2.1-or-later
"""The worker of files: it reads experiments and traces, which may be made to take for ever, and changes nothing.

    python -m gilk.web.file_worker READING WRITING

The server kills it when it has not answered in time (timed.py).
"""

from __future__ import annotations

import resource
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from gilk.api import experiments
from gilk.errors import GilkError, UsageError
from gilk.web.worker import main, told

Json = dict[str, Any]
_MEMORY: Final = 8 << 30  # bytes; a file that takes more is given up


def ready() -> Json:
    return {}


def experiment(path: str, text: str) -> Json:
    """The values of an experiment, or its problem; and its outcome on the command line and in Python."""
    file = Path(path)
    same = commands(file)
    try:
        found = experiments.parse_experiment(text, file)
    except GilkError as error:
        return {"values": None, "problem": told(error), **same}
    return {"values": _values(found), "problem": None, **same}


def commands(file: Path) -> dict[str, str]:
    """The command line and the Python that run an experiment."""
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


def changed(path: str, text: str, change: Json) -> Json:
    """The text of an experiment with one change, which is one of: ``{"table", "key", "value"}``, None taking the key
    out; ``{"add", "start"}`` an instrument, as for `gilk run -i`; ``{"remove"}`` an instrument, counted from 1."""
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


#: All that it does.
ANSWERS: Final[Mapping[str, Callable[..., Json]]] = {"ready": ready, "experiment": experiment, "changed": changed}


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    main(ANSWERS)
