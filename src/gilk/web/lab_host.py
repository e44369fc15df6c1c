# SPDX-License-Identifier: LGPL-2.1-or-later
"""The process that has the lab of a window: a virtual machine, whose kernel is looked at and instrumented.

    python -m gilk.web.lab_host READING WRITING

The first message starts the machine. Then questions are answered as by worker.py, and sessions run, one at a time,
since this process has the machine's only connection; questions are answered meanwhile. It ends when its input ends,
and when the machine does. However it ends, the machine ends with it.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from gilk.api.live import LiveRun, prepare_kernel_live
from gilk.api.runs import Progress, parse_request, report
from gilk.api.watched_kernel import WatchedKernel, watched_kernel
from gilk.errors import GilkError, MachineGone, TargetError
from gilk.web.frames import Message, ServerChannel, ServerEnded, told
from gilk.web.host import state_of
from gilk.web.worker import LookAnswers, answered

Json = dict[str, Any]
_EVERY: Final = 0.1  # the seconds between two states that are sent
_LOOKS: Final = 500  # the ms between two looks whether the server is still there, while the machine starts
_KEPT: Final = 16 << 10  # the number of the last bytes of a command's output that are shown
_CONSOLE: Final = 8 << 10  # the number of the last characters of the console that are shown


class LabOutput:
    """The end of a command's output."""

    def __init__(self) -> None:
        self._kept, self.bytes = bytearray(), 0

    def take(self, part: bytes) -> None:
        self.bytes += len(part)
        self._kept = (self._kept + part)[-_KEPT:]

    def to_json(self) -> Json:
        return {"printed": bytes(self._kept).decode("utf-8", "replace"), "bytes": self.bytes}


class LabHost:
    """``over``: whether this process is to end."""

    def __init__(self, channel: ServerChannel, kernel: WatchedKernel) -> None:
        self._channel, self._kernel = channel, kernel
        self._looks = LookAnswers(kernel.subject)
        self._running: LiveRun | None = None
        self._output = LabOutput()
        self._ending = False  # whether the session is to end
        self._told = 0.0
        self.over = False

    def answers(self) -> Mapping[str, Callable[..., Json]]:
        own: dict[str, Callable[..., Json]] = {"state": self.state, "end": self._end, "session": self._busy}
        looks = dict(self._looks.answers())
        return looks | own | ({"survey": self._busy} if self._running is not None else {})

    def state(self) -> Json:
        image = self._kernel.subject.kernel.image
        console = self._kernel.console[-_CONSOLE:]
        return {"release": self._kernel.release, "functions": len(image.spans), "console": console}

    def _end(self) -> Json:
        """End the session, if there is one."""
        self._ending = True
        return {}

    def _busy(self, **_given: Any) -> Json:
        raise TargetError("lab-busy", "a session is in the lab already", "take it out first: there is one at a time")

    def serve(self) -> None:
        """Answer until the input ends. Raises MachineGone."""
        while not self.over:
            self._kernel.watch([self._channel.fileno()])
            with suppress(ServerEnded):
                self._answer(self._channel.receive())
                continue
            self.over = True

    def _answer(self, message: Message) -> None:
        if message["ask"] == "session":
            self._session(message)
            return
        if self._running is None:
            self._renew()
        self._channel.send(answered(message, self.answers()))

    def _renew(self) -> None:
        """Read the kernel anew if its modules have changed. A session must not be in it."""
        if self._kernel.refresh():
            self._looks = LookAnswers(self._kernel.subject)

    # Sessions.

    def _session(self, message: Message) -> None:
        """Run a session to its end. Its instruments are taken out however it ends."""
        try:
            running = self._begun(message["given"])
        except MachineGone:
            raise
        except GilkError as error:
            self._channel.send({"id": message["id"], "error": told(error)})
            return
        self._running, self._ending = running, False
        try:
            with suppress(ServerEnded):
                self._channel.send({"id": message["id"], "ok": {"host": os.getpid()}})
            running.wait(None, self._ends, self._show)
        finally:
            progress = running.progress()
            result = report(running.finish()).to_json()
            self._running = None
            with suppress(ServerEnded):
                self._channel.send({"state": {**self._now(running, progress), "report": result}})
        if running.lost is not None:
            raise running.lost

    def _begun(self, given: Json) -> LiveRun:
        """A session whose instruments are in, and whose command runs. Raises GilkError; then nothing has changed."""
        self._renew()
        self._output = LabOutput()
        requests = [parse_request(text) for text in given["requests"]]
        command = ["sh", "-c", given["workload"]] if given["workload"] else []
        running = prepare_kernel_live(requests, self._kernel, command, self._output.take)
        running.begin()
        return running

    def _ends(self) -> bool:
        """Answer what the server has asked; returns whether the session is to end."""
        try:
            while not self._ending and not self.over and self._channel.waits(0):
                self._channel.send(answered(self._channel.receive(), self.answers()))
        except ServerEnded:
            self.over = True
        return self._ending or self.over

    def _show(self, progress: Progress) -> None:
        now = time.monotonic()
        if self._running is None or now - self._told < _EVERY:
            return
        self._told = now
        try:
            self._channel.send({"state": self._now(self._running, progress)})
        except ServerEnded:
            self.over = True

    def _now(self, running: LiveRun, progress: Progress) -> Json:
        return {**state_of(running, progress), **(self._output.to_json() if running.command else {})}


def main() -> None:
    channel = ServerChannel.given()
    try:
        first = channel.receive()
        _carry_out(channel, first)
    except ServerEnded:
        return


def _carry_out(channel: ServerChannel, first: Message) -> None:
    """Start the machine, and serve until its end or that of the server. Raises ServerEnded."""
    up = threading.Event()
    threading.Thread(target=_end_with_server, args=(channel, up), daemon=True).start()
    try:
        with watched_kernel(first["given"]["machine"]) as kernel:
            host = LabHost(channel, kernel)
            channel.send({"id": first["id"], "ok": host.state()})
            up.set()
            host.serve()
    except GilkError as error:
        channel.send({"state": {"gone": told(error)}} if up.is_set() else {"id": first["id"], "error": told(error)})


def _end_with_server(channel: ServerChannel, up: threading.Event) -> None:
    """End this process if the server ends while the machine starts, when nothing is read from it. The machine is killed
    then (lab/vm.py)."""
    ends = select.poll()
    ends.register(channel.fileno(), 0)  # POLLHUP alone: the other end is closed
    while not up.is_set():
        if ends.poll(_LOOKS):
            os._exit(1)


if __name__ == "__main__":
    main()
