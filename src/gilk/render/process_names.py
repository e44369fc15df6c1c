# SPDX-License-Identifier: LGPL-2.1-or-later
"""The names of the processes of a trace, since a number alone tells a reader nothing."""

from __future__ import annotations

import shlex

from gilk.render.text import cell
from gilk.trace.flow import Flow
from gilk.trace.reading import Trace


def process_names(flow: Flow) -> dict[int, str]:
    """The name of each process's main thread, by pid, or that of another thread if the main thread has no calls; '' if
    it is not known.
    """
    names: dict[int, str] = {}
    for rows in flow.tracks:
        first = flow.table.slice(rows.start, 1).to_pylist()[0]
        if first["pid"] == first["tid"]:
            names[first["pid"]] = first["thread"] or ""
        else:
            names.setdefault(first["pid"], first["thread"] or "")
    return names


def traced_name(trace: Trace) -> str:
    """The command that was launched, or else the processes by name and number; for headings."""
    if trace.about.command:
        return cell(shlex.join(trace.about.command))
    names = process_names(trace.flow)
    return ", ".join(_with_number(names, pid) for pid in trace.about.pids) or cell(trace.about.host)


def _with_number(names: dict[int, str], pid: int) -> str:
    """The name and number of a process: ``sqlite3 (4711)``; ``process 4711`` if its name is not known."""
    return f"{cell(names[pid])} ({pid})" if names.get(pid) else f"process {pid}"
