# SPDX-License-Identifier: LGPL-2.1-or-later
"""The process that has the machine of a window, whose kernel is looked at and instrumented.

    python -m gilk.web.machine_host READING WRITING GRANTS

The first message starts the machine, or connects to it. Then questions are answered as by worker.py, and sessions run,
one at a time, since this process has the only connection to the machine; questions are answered meanwhile. Those about
D programs that are being written are answered by a copy of this process (forked.py). It ends when its input ends, and
when the machine or the connection does. However it ends, a virtual machine ends with it, and what was put into another
one is taken out there by the driver.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from gilk import own_threads
from gilk.api import dtrace as d_programs
from gilk.api.d_writing import DWriting
from gilk.api.live import LiveRequest, LiveRun, prepare_kernel_live
from gilk.api.runs import Progress, report
from gilk.api.traces import Tracing, prepare_kernel_trace
from gilk.api.watched_kernel import WatchedKernel, watched_kernel
from gilk.errors import GilkError, MachineGone, TargetError, UsageError
from gilk.web.checked import Check, checked, first_given, free, instruments, of_kernel, text, trace_file
from gilk.web.commands import C_FILE
from gilk.web.costing import Costing
from gilk.web.d_answers import DAnswers
from gilk.web.d_limits import TOO_SLOW
from gilk.web.forked import ForkedWorker
from gilk.web.frames import Message, ServerChannel, ServerEnded, answered, told
from gilk.web.grants import LAB, Grants, taken
from gilk.web.growing import GrowingLatencies
from gilk.web.host import state_of, switched, why_over
from gilk.web.kept_output import KeptOutput
from gilk.web.pace import Pace
from gilk.web.printing import PrintingHost
from gilk.web.summing import LeftOutError, SummingUp
from gilk.web.trace_host import trace_state, traced_report
from gilk.web.worker import LookAnswers

Json = dict[str, Any]
_LOOKS: Final = 500  # the ms between two looks whether the server is still there, while the machine starts
_LOOKS_ANEW: Final = 5.0  # the seconds between two looks whether modules were loaded, if nothing was run here
D_WITHIN: Final = {"check": 20.0, "words": 20.0, "preview": 40.0}  # in seconds; a kernel has many probes
_OF_D: Final = "d-"  # begins the names of questions about D programs that are being written
_CONSOLE: Final = 8 << 10  # the number of the last characters of the console that are shown


class MachineHost:
    """``over``: whether this process is to end."""

    def __init__(self, channel: ServerChannel, grants: Grants, kernel: WatchedKernel) -> None:
        self._channel, self._grants, self._kernel = channel, grants, kernel
        self._looks = LookAnswers(kernel.subject)
        self._writing = self._new_writing()
        self._busy = False  # whether a session is in the kernel
        self._running: LiveRun | None = None  # the session, if it is one of instruments
        self._next_look = 0.0  # when to look whether modules have changed, by time.monotonic()
        self._output = KeptOutput()
        self._ending = False  # whether the session is to end
        self._left_out = False  # whether the report of the session is not wanted
        self._pace, self._costing, self._growing = Pace(), Costing(), GrowingLatencies()
        self.over = False

    def answers(self) -> Mapping[str, Callable[..., Json]]:
        own: dict[str, Callable[..., Json]] = {"state": self.state, "end": self._end, "leave-out": self._leave_out}
        own["pause"] = self._pause
        own |= dict.fromkeys((*self._sessions(), *(["survey"] if self._busy else [])), self._refuse)
        return checked(self._grants, {**self._looks.answers(), **own}, CHECKS)

    def _sessions(self) -> Mapping[str, Callable[[Json], Callable[[Message], None]]]:
        """The sessions that can be begun. Each is begun by the first function, and run to its end by the result."""
        return {"session": self._begin_run, "program": self._begin_program, "trace": self._begin_trace}

    def state(self) -> Json:
        image = self._kernel.subject.kernel.image
        console = self._kernel.console[-_CONSOLE:]
        return {"release": self._kernel.release, "functions": len(image.spans), "console": console}

    def _end(self) -> Json:
        """End the session, if there is one."""
        self._ending = True
        return {}

    def _pause(self, paused: bool) -> Json:
        """Pause the session, if it is one of instruments, or let it go on. Raises GilkError; then nothing has
        changed."""
        return {} if self._running is None else switched(self._running, paused)

    def _leave_out(self) -> Json:
        """Leave out the report of the session, if there is one, as soon as its file is complete."""
        self._left_out = True
        return {}

    def _refuse(self, **_given: Any) -> Json:
        raise TargetError(
            "machine-busy", "a session is in that kernel already", "take it out first: there is one at a time"
        )

    def close(self) -> None:
        self._writing.close()

    def serve(self) -> None:
        """Answer until the input ends. Raises MachineGone."""
        while not self.over:
            self._kernel.watch([self._channel.fileno()])
            with suppress(ServerEnded):
                self._answer(self._channel.receive())
                continue
            self.over = True

    def _answer(self, message: Message) -> None:
        if message["ask"] in self._sessions():
            self._session(message)
            return
        self._renew()
        self._channel.send(self._answered(message))

    def _answered(self, message: Message) -> Message:
        what = message["ask"].removeprefix(_OF_D)
        if what == message["ask"]:
            return answered(message, self.answers())
        try:
            if message["ask"] not in CHECKS:
                raise UsageError("bad-request", f"there is no question {message['ask']!r}")
            return self._writing.ask({**message, "ask": what}, D_WITHIN[what], TOO_SLOW)
        except GilkError as error:
            return {"id": message["id"], "error": told(error)}

    def _renew(self) -> None:
        """Read the kernel anew if its modules have changed. That is looked at only from time to time, since it takes
        longer than a search. A session must not be in it.
        """
        now = time.monotonic()
        if self._busy or now < self._next_look:
            return
        self._next_look = now + _LOOKS_ANEW
        if self._kernel.refresh():
            self._looks = LookAnswers(self._kernel.subject)
            self._writing.close()
            self._writing = self._new_writing()

    def _new_writing(self) -> ForkedWorker:
        kernel = self._kernel
        return ForkedWorker(lambda read: DAnswers(partial(_same, kernel.writing(read))).answers(), kernel.read_file)

    # Sessions.

    def _session(self, message: Message) -> None:
        """Run a session to its end. Its instruments are taken out however it ends."""
        self._next_look = 0.0
        self._renew()
        self._busy, self._ending, self._left_out = True, False, False
        try:
            given = CHECKS[message["ask"]](self._grants, message["given"])
            self._sessions()[message["ask"]](given)(message)
        except MachineGone:
            raise
        except GilkError as error:
            self._channel.send({"id": message["id"], "error": told(error)})
        finally:
            self._busy = False
            self._next_look = 0.0  # its command may have loaded modules

    def _begin_run(self, given: Json) -> Callable[[Message], None]:
        """A run whose instruments are in, and whose command runs. Raises GilkError; then nothing has changed."""
        self._output, self._growing = KeptOutput(), GrowingLatencies()
        texts = {C_FILE: given["text"]} if given["text"] else {}
        requests = [LiveRequest(request, start, stop, texts) for request, start, stop in given["requests"]]
        running = prepare_kernel_live(requests, self._kernel, _command(given), self._output.take)
        running.begin()
        return partial(self._run, running)

    def _run(self, running: LiveRun, first: Message) -> None:
        self._running = running
        try:
            with suppress(ServerEnded):
                self._channel.send({"id": first["id"], "ok": {"host": os.getpid()}})
            running.wait(None, self._ends, lambda progress: self._show(partial(self._now, running, progress)))
        finally:
            self._running = None
            summing, spent = SummingUp(self._channel, self._has_no_reader), why_over(running)
            summing.out(running.take_out())
            progress = running.progress()
            result: Json | None = None
            with suppress(LeftOutError):
                result = report(running.sum_up(summing.tell)).to_json()
                progress.records = result["records"]  # the last ones have only now been read
            with suppress(ServerEnded):
                self._channel.send({"state": {**self._now(running, progress), **spent, "report": result}})
        if running.lost is not None:
            raise running.lost

    def _begin_program(self, given: Json) -> Callable[[Message], None]:
        """A D program, whose command waits for its probes. Raises GilkError; then nothing has changed."""
        host = PrintingHost(self._channel, self._ends)
        consumer = self._kernel.program(given["text"], _command(given), host.add)

        def run(first: Message) -> None:
            try:
                host.carry_out(consumer, first)
            finally:
                d_programs.let_go(consumer)

        return run

    def _begin_trace(self, given: Json) -> Callable[[Message], None]:
        """A trace whose probes are in, and whose command runs. Raises GilkError; then nothing has changed."""
        self._output = KeptOutput()
        running = prepare_kernel_trace(
            self._kernel, given["scope"], _command(given), self._output.take, given["file"], given["start"],
            given["stop"], given["depth"],
        )  # fmt: skip
        running.keep_in_file_only()
        running.begin()
        return partial(self._trace, running)

    def _trace(self, running: Tracing, first: Message) -> None:
        trouble: list[str] = []

        def now(progress: Progress) -> Json:
            return {**trace_state(progress), **(self._output.to_json() if running.command else {})}

        try:
            with suppress(ServerEnded):
                self._channel.send({"id": first["id"], "ok": {"host": os.getpid()}})
            running.wait(None, self._ends, lambda progress: self._show(partial(now, progress)))
        except GilkError as error:  # the disk may be full
            trouble.append(f"it was ended: {error.message} ({error.slug})")
        finally:
            progress = running.progress()
            result: Json | None = None
            with suppress(LeftOutError):
                result = traced_report(running, trouble, SummingUp(self._channel, self._has_no_reader))
            with suppress(ServerEnded):
                self._channel.send({"state": {**now(progress), "doing": "", "report": result}})
        if running.lost is not None:
            raise running.lost

    def _ends(self) -> bool:
        """Answer what the server has asked; returns whether the session is to end."""
        try:
            while not self.over and self._channel.waits(0):
                self._channel.send(self._answered(self._channel.receive()))
        except ServerEnded:
            self.over = True
        return self._ending or self.over

    def _has_no_reader(self) -> bool:
        """Answer what the server has asked; returns whether the session's report is not wanted any more."""
        self._ends()
        return self._left_out or self.over

    def _show(self, state: Callable[[], Json]) -> None:
        """Send what ``state`` returns, if it is time."""
        try:
            self._pace.tell(lambda: self._channel.send({"state": state()}))
        except ServerEnded:
            self.over = True

    def _now(self, running: LiveRun, progress: Progress) -> Json:
        return {
            **state_of(running, progress, self._costing, self._growing),
            **(self._output.to_json() if running.command else {}),
        }


def _starting(grants: Grants, given: Json) -> Json:
    """The start of the machine, or the connection to it."""
    grants.check_machine(text(given, "machine"))
    return given


def _with_command(grants: Grants, given: Json) -> Json:
    """A session, while a command runs there, if there is one. Raises TargetError `only-in-the-lab`."""
    grants.check_acts()
    if text(given, "workload") and grants.machine != LAB:
        hint = "run it there yourself, while the session goes on"
        raise TargetError("only-in-the-lab", "the window runs commands in the lab, and nowhere else", hint)
    return given


def _session(grants: Grants, given: Json) -> Json:
    return instruments(grants, _with_command(grants, given))


def _trace(grants: Grants, given: Json) -> Json:
    return trace_file(grants, _with_command(grants, given))


CHECKS: Final[Mapping[str, Check]] = {
    "start": _starting, "session": _session, "program": _with_command, "trace": _trace,
    **dict.fromkeys(("images", "symbols", "survey", "function", "preview"), of_kernel),
    **dict.fromkeys(("state", "end", "leave-out", "pause"), free),
    **{f"{_OF_D}{name}": free for name in D_WITHIN},
}  # fmt: skip


def _command(given: Json) -> list[str]:
    return ["sh", "-c", given["workload"]] if given["workload"] else []


def _same(writing: DWriting) -> DWriting:
    return writing


def main() -> None:
    channel, grants = ServerChannel.given(), taken()
    try:
        first = channel.receive()
        _carry_out(channel, grants, first)
    except ServerEnded:
        return


def _carry_out(channel: ServerChannel, grants: Grants, first: Message) -> None:
    """Start the machine, and serve until its end or that of the server. Raises ServerEnded."""
    up = threading.Event()
    own_threads.start(threading.Thread(target=_end_with_server, args=(channel, up), daemon=True))
    try:
        with watched_kernel(first_given(grants, first, CHECKS, "start")["machine"]) as kernel:
            host = MachineHost(channel, grants, kernel)
            channel.send({"id": first["id"], "ok": host.state()})
            up.set()
            try:
                host.serve()
            finally:
                host.close()
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
