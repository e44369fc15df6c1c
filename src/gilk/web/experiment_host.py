# SPDX-License-Identifier: LGPL-2.1-or-later
"""The process of an experiment that runs in a window: all its repetitions, as `gilk experiment run` does them.

    python -m gilk.web.experiment_host READING WRITING GRANTS

The first message has the file's text and its directory. The process ends in the same cases as host.py; repetitions that
have not begun are left out then.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from gilk import own_threads
from gilk.api import experiments
from gilk.api.costs import known_costs
from gilk.api.runs import Progress, report
from gilk.errors import GilkError
from gilk.web.checked import Check, first_given, free, text
from gilk.web.costing import Costing
from gilk.web.frames import Message, ServerChannel, ServerEnded, told
from gilk.web.grants import Grants, taken
from gilk.web.host import ServerSaid, leave
from gilk.web.kept_output import KeptOutput
from gilk.web.pace import Pace
from gilk.web.summing import LeftOutError, SummingUp

Json = dict[str, Any]


class WorkloadOutput:
    """Captures this process's standard output and error, which the workload inherits, and keeps the end of it."""

    def __init__(self) -> None:
        self._reading, writing = os.pipe()
        os.set_inheritable(self._reading, False)
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        os.close(writing)
        self._kept = KeptOutput()
        own_threads.start(threading.Thread(target=self._read, daemon=True))

    def _read(self) -> None:
        while part := os.read(self._reading, 1 << 16):
            self._kept.take(part)

    def to_json(self) -> Json:
        return self._kept.to_json()


class ExperimentHost:
    def __init__(
        self, channel: ServerChannel, grants: Grants, plan: experiments.Experiment, output: WorkloadOutput
    ) -> None:
        self._channel, self._grants, self._plan, self._output = channel, grants, plan, output
        self.said = ServerSaid(channel)
        self._pace, self._costing = Pace(), Costing()
        self._runs: list[Json] = []

    def prepared(self, number: int) -> experiments.Staged:
        """A repetition in which everything that belongs to the beginning has been put in. Raises GilkError; then
        nothing has changed.
        """
        births = {pid: self._grants.birth_of(pid) for pid in experiments.running_targets(self._plan)}
        running = experiments.prepare_experiment(self._plan, number)
        running.costs, self._costing = known_costs(), Costing()
        try:
            for process in running.processes:
                if not process.launched:
                    self._grants.check_process(process.pid, births[process.pid])
            running.begin()
        except GilkError:
            running.abort()
            raise
        return running

    def carry_out(self, number: int, running: experiments.Staged) -> None:
        try:
            running.wait(self._plan.duration, self.said.end, lambda state: self._show(number, running, state))
        finally:
            before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
            progress = running.progress()
            result = self._result(running)
            signal.signal(signal.SIGTERM, before)
        self._runs.append(result)
        last = number == self._plan.repetitions or self.said.end()
        self._tell({**self._state(number, running, progress), "counts": result["counts"]}, last)

    def _result(self, running: experiments.Staged) -> Json:
        """Take everything out, and sum up. Raises LeftOutError."""
        try:
            summing = SummingUp(self._channel)
            summing.out(running.take_out())
            return experiments.outcome(running, report(running.sum_up(summing.tell)))
        finally:
            for process in running.processes:
                process.keeper.leave()

    def _show(self, number: int, running: experiments.Staged, progress: Progress) -> None:
        self._pace.tell(lambda: self._tell(self._state(number, running, progress), False))

    def _state(self, number: int, running: experiments.Staged, progress: Progress) -> Json:
        happened = running.happened()
        return {
            "seconds": round(progress.seconds, 3),
            "hits": progress.hits,
            "records": progress.records,
            "drops": progress.drops,
            "cost": self._costing.of(running),
            "experiment": {"repetition": number, "repetitions": self._plan.repetitions, **happened},
            **self._output.to_json(),
        }

    def _tell(self, state: Json, last: bool) -> None:
        with suppress(ServerEnded):
            self._channel.send({"state": {**state, "report": self._report()} if last else {**state, "out": None}})

    def _report(self) -> Json:
        """The results of all repetitions. ``restored`` is None if it is not known for one of them."""
        words = [each["restored"] for each in self._runs]
        restored = False if False in words else None if None in words else True
        notes = [note for each in self._runs for note in each["notes"]]
        return {"experiment": self._plan.name, "restored": restored, "notes": notes, "runs": self._runs}

    def failed(self, error: GilkError) -> None:
        """Report that a later repetition could not begin, with the results of the earlier ones."""
        self._runs[-1]["notes"].append(f"the next repetition was refused: {error.message} ({error.slug})")
        with suppress(ServerEnded):
            self._channel.send({"state": {"report": self._report(), **self._output.to_json()}})


def _beginning(grants: Grants, given: Json) -> Json:
    """The beginning of an experiment, whose file lies in a directory for experiments."""
    grants.check_acts()
    text(given, "text")
    grants.real_experiment(Path(text(given, "directory")) / text(given, "file"))
    return given


CHECKS: Final[Mapping[str, Check]] = {"begin": _beginning, "end": free}


def main() -> None:
    channel, grants = ServerChannel.given(), taken()
    signal.signal(signal.SIGTERM, leave)
    with suppress(ServerEnded, LeftOutError):
        _run(channel, grants, channel.receive())


def _run(channel: ServerChannel, grants: Grants, begun: Message) -> None:
    try:
        given = first_given(grants, begun, CHECKS)
        os.chdir(given["directory"])
        plan = experiments.parse_experiment(given["text"], Path(given["file"]))
        grants.check_kernels(plan.machine, plan.targets)
        host = ExperimentHost(channel, grants, plan, WorkloadOutput())
        running = host.prepared(1)
    except GilkError as error:
        channel.send({"id": begun["id"], "error": told(error)})
        return
    with suppress(ServerEnded):
        channel.send({"id": begun["id"], "ok": {"host": os.getpid()}})
    host.carry_out(1, running)
    for number in range(2, plan.repetitions + 1):
        if host.said.over:
            return
        try:
            running = host.prepared(number)
        except GilkError as error:
            host.failed(error)
            return
        host.carry_out(number, running)


if __name__ == "__main__":
    main()
