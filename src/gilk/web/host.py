# SPDX-License-Identifier: LGPL-2.1-or-later
"""A session's own process: it puts instruments into a process, reports on them, and takes them out.

    python -m gilk.web.host READING WRITING GRANTS

The first message says which instruments to put where. The process ends when it is told to, when the target ends, and
when the server has ended in whatever way; everything is taken out in all cases. If it is killed, the keeper does that.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any, Final

from gilk.api.live import LiveRequest, LiveRun, prepare_live
from gilk.api.runs import Progress, report
from gilk.errors import GilkError
from gilk.web.checked import Check, first_given, free, in_processes, instruments
from gilk.web.commands import C_FILE
from gilk.web.costing import Costing
from gilk.web.frames import Answers, Message, ServerChannel, ServerEnded, answered, told
from gilk.web.grants import Grants, taken
from gilk.web.growing import GrowingLatencies
from gilk.web.pace import Pace
from gilk.web.standing import MOVED, still
from gilk.web.summing import LeftOutError, SummingUp

Json = dict[str, Any]
SPENT: Final = "all its instruments have come out again"
_PERCENTILES: Final = (50, 90, 99)


class ServerSaid:
    """``over``: whether the server, when it was last listened to, had asked for the end or had ended itself.
    ``answers``: by name, the questions besides that which are answered.
    """

    def __init__(self, channel: ServerChannel, answers: Answers | None = None) -> None:
        self._channel, self._answers = channel, answers or {}
        self.over = False

    def end(self) -> bool:
        """Read the server's messages, and return whether this process is to end."""
        try:
            while not self.over and self._channel.waits(0):
                message = self._channel.receive()
                self.over = message["ask"] == "end"
                if message["ask"] in self._answers:
                    self._channel.send(answered(message, self._answers))
        except ServerEnded:
            self.over = True
        return self.over


class SessionHost:
    def __init__(self, channel: ServerChannel, grants: Grants) -> None:
        self._channel, self._grants = channel, grants
        self.said = ServerSaid(channel, {"pause": self.pause})
        self._pace = Pace()
        self.costing, self.growing = Costing(), GrowingLatencies()
        self._running: LiveRun | None = None

    def begin(self, given: Json) -> LiveRun:
        """Put all instruments in. Raises GilkError; then nothing has changed."""
        held = given["processes"]
        texts = {C_FILE: given["text"]} if given["text"] else {}
        requests = [LiveRequest(text, start, stop, texts) for text, start, stop in given["requests"]]
        running = prepare_live(requests, list(held))
        self._running = running
        try:
            for pid, born in held.items():
                self._grants.check_process(pid, born)  # again, now that no other process can get its number
        except GilkError:
            running.abort()
            raise
        running.begin()
        return running

    def pause(self, paused: bool) -> Json:
        """Pause the session, or let it go on. Raises GilkError; then nothing has changed."""
        return {} if self._running is None else switched(self._running, paused)

    def show(self, progress: Progress) -> None:
        if self._running is None:
            return
        try:
            self._pace.tell(partial(self._send, self._running, progress))
        except ServerEnded:
            self.said.over = True

    def _send(self, running: LiveRun, progress: Progress) -> None:
        stopped = still(process.pid for process in running.processes)
        self._channel.send({"state": {**state_of(running, progress, self.costing, self.growing), "still": stopped}})


def state_of(running: LiveRun, progress: Progress, costing: Costing, growing: GrowingLatencies) -> Json:
    """The state of a session, as pages show it."""
    return {
        "seconds": round(progress.seconds, 3),
        "hits": progress.hits,
        "records": progress.records,
        "drops": progress.drops,
        "counts": running.counts(),
        "latency": growing.of(latency(running), progress.seconds),
        "tactics": running.tactics_by_point(),
        "refused": running.refusals_by_point(),
        "last": running.last(),
        "stages": running.stages(),
        "cost": costing.of(running),
        "paused": running.is_paused,
    }


def switched(running: LiveRun, paused: bool) -> Json:
    """Pause a run, or let it go on; returns what is new in its state. Raises GilkError; then nothing has changed."""
    running.pause() if paused else running.resume()
    return {"paused": running.is_paused}


def why_over(running: LiveRun) -> Json:
    """The reason why a run is over, for its state, if it is not the usual one."""
    return {"over": SPENT} if running.is_spent else {"over": MOVED} if running.has_moved else {}


def latency(running: LiveRun) -> Json:
    """The calls of each function by the number of bits of their time in ns, and percentiles of the time."""
    found = running.latencies
    return {
        name: {
            "calls": sum(octaves := found.octaves(name)),
            "total": found.total[name],
            "octaves": octaves,
            **{f"p{percent}": found.about(name, percent) for percent in _PERCENTILES},
        }
        for name in found.calls
    }


def _beginning(grants: Grants, given: Json) -> Json:
    return in_processes(grants, instruments(grants, given))


CHECKS: Final[Mapping[str, Check]] = {"begin": _beginning, "pause": free, "end": free}


def main() -> None:
    channel = ServerChannel.given()
    grants = taken()
    host = SessionHost(channel, grants)
    signal.signal(signal.SIGTERM, leave)
    try:
        begun = channel.receive()
        running = host.begin(first_given(grants, begun, CHECKS))
    except GilkError as error:
        channel.send({"id": begun["id"], "error": told(error)})
        return
    except ServerEnded:
        return
    _carry_out(host, running, channel, begun)


def _carry_out(host: SessionHost, running: LiveRun, channel: ServerChannel, begun: Message) -> None:
    try:
        with suppress(ServerEnded):
            channel.send({"id": begun["id"], "ok": {"host": os.getpid()}})
        running.wait(None, host.said.end, host.show)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        summing = SummingUp(channel)
        spent = why_over(running)
        summing.out(running.take_out())
        progress = running.progress()
        with suppress(ServerEnded, LeftOutError):
            result = report(running.sum_up(summing.tell)).to_json()
            progress.records = result["records"]  # the last ones have only now been read
            host.costing.look(running)
            state = state_of(running, progress, host.costing, host.growing)
            channel.send({"state": {**state, **spent, "still": [], "report": result}})


def leave(number: int, _frame: FrameType | None) -> None:
    """The handler of signals that end a session in good order."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    main()
