# SPDX-License-Identifier: LGPL-2.1-or-later
"""The process that makes a trace for the window: all calls from one event to another, as `gilk trace` records them.

    python -m gilk.web.trace_host READING WRITING GRANTS

The first message has the process, the file, and the scope. The protocol is that of host.py.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from gilk.api.runs import Progress
from gilk.api.traces import Tracing, prepare_trace, trace_report_of_file
from gilk.errors import GilkError
from gilk.web.checked import Check, first_given, free, in_one_process, trace_file
from gilk.web.frames import Message, ServerChannel, ServerEnded, told
from gilk.web.grants import Grants, taken
from gilk.web.host import ServerSaid, leave
from gilk.web.standing import MOVED, still
from gilk.web.summing import LeftOutError, SummingUp

Json = dict[str, Any]
_EVERY: Final = 0.1  # seconds between two states that are told


class TraceHost:
    """Sends the state of a trace of the processes ``pids``."""

    def __init__(self, channel: ServerChannel, pids: Sequence[int]) -> None:
        self._channel, self._pids = channel, pids
        self.said = ServerSaid(channel)
        self._told = 0.0

    def show(self, progress: Progress) -> None:
        if time.monotonic() - self._told < _EVERY:
            return
        self._told = time.monotonic()
        try:
            self._channel.send({"state": {**trace_state(progress), "still": still(self._pids)}})
        except ServerEnded:
            self.said.over = True


def trace_state(progress: Progress) -> Json:
    numbers = {"seconds": round(progress.seconds, 3), "records": progress.records, "drops": progress.drops}
    return {**numbers, "doing": progress.what}


def begun(grants: Grants, given: Json) -> Tracing:
    """Prepare the trace, which then waits for its start event. Raises GilkError; then nothing has changed."""
    pid, born = given["processes"]
    asked = {name: given[name] for name in ("start", "stop", "scope", "skip", "everything", "depth")}
    running = prepare_trace([pid], output=given["file"], **asked)
    try:
        grants.check_process(pid, born)  # again, now that no other process can get its number
    except GilkError:
        running.abort()
        raise
    running.keep_in_file_only()
    running.begin()
    return running


def _carry_out(running: Tracing, channel: ServerChannel, first: Message) -> None:
    """Run the trace and write the file. Whatever happens to the file, the process is restored at the end."""
    host = TraceHost(channel, [process.pid for process in running.processes])
    trouble: list[str] = []
    try:
        with suppress(ServerEnded):
            channel.send({"id": first["id"], "ok": {"host": os.getpid()}})
        running.wait(None, host.said.end, host.show)
    except GilkError as error:  # the disk may be full
        trouble.append(f"it was ended: {error.message} ({error.slug})")
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with suppress(ServerEnded, LeftOutError):
            found = traced_report(running, trouble, SummingUp(channel))
            over = {"over": MOVED} if running.has_moved else {}
            state = {**trace_state(running.progress()), "doing": "", "still": []}
            channel.send({"state": {**state, **over, "report": found}})


def traced_report(running: Tracing, trouble: list[str], summing: SummingUp) -> Json:
    """Take everything out, and make the report as `gilk trace --json` prints it, and as text. ``kept``: whether there
    is a file. Raises LeftOutError.
    """
    report: Json = {"restored": None, "notes": trouble, "text": ""}
    try:
        report["restored"] = running.take_out()
        summing.out(report["restored"])
        made = trace_report_of_file(running, running.sum_up(summing.tell), summing.read)
        report = {**made.to_json(), "text": made.render()}
        report["notes"] = [*report["notes"], *trouble]
    except GilkError as error:
        trouble.append(f"{error.message} ({error.slug})")
        running.abort()
    finally:
        for process in running.processes:
            process.keeper.leave()
    return {**report, "kept": running.output is not None and Path(running.output).exists()}


def _beginning(grants: Grants, given: Json) -> Json:
    return in_one_process(grants, trace_file(grants, given))


CHECKS: Final[Mapping[str, Check]] = {"begin": _beginning, "end": free}


def main() -> None:
    channel, grants = ServerChannel.given(), taken()
    signal.signal(signal.SIGTERM, leave)
    try:
        first = channel.receive()
        running = begun(grants, first_given(grants, first, CHECKS))
    except GilkError as error:
        channel.send({"id": first["id"], "error": told(error)})
    except ServerEnded:
        pass
    else:
        _carry_out(running, channel, first)


if __name__ == "__main__":
    main()
