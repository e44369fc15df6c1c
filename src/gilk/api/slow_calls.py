# SPDX-License-Identifier: LGPL-2.1-or-later
"""The slow calls of a function with all that they call: a trace, of which these calls are taken."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gilk.api.traces import prepare_trace
from gilk.engines.follow.tracing import Tracing
from gilk.errors import TargetError, UsageError
from gilk.image import lookup
from gilk.render.trace_names import with_readable_names
from gilk.spec import functions
from gilk.trace.flow import Flow
from gilk.trace.nesting import Bools
from gilk.trace.reading import read
from gilk.trace.slow_calls import SlowCalls, slow_calls

__all__ = ["SlowCalls", "SlowTrace"]


class SlowTrace:
    """A trace that is asked for the slow calls of a function. ``lasting``: ns of the trace, None until the program
    ends. Raises GilkError; then the process is let go."""

    def __init__(
        self, function: str, pid: int | None, command: Sequence[str], file: Path, lasting: int | None,
        scope: Sequence[str] = (), skip: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._typed, self._file, self._images = functions.parse(function), file, set[str]()
        stop = "exit" if lasting is None else f"for:{lasting}ns"
        self.running: Tracing = prepare_trace([] if pid is None else [pid], command, file, "now", stop, scope, skip)

    def note_images(self) -> None:
        """Note which images are meant, while the process is there."""
        with suppress(TargetError):
            for process in self.running.processes:
                for loaded in process.loaded():
                    if loaded.is_meant(self._typed.image) if self._typed.image else loaded.main:
                        self._images.add(loaded.name)

    def found(self, threshold: int) -> SlowCalls:
        """The slow calls, once the trace has ended. ``threshold``: ns. Raises UsageError `no-such-function` if the
        trace has followed no such function, StoreError."""
        trace = read(self._file)
        probes = [one for one in trace.about.probes if self._is_meant(one.function, one.image)]
        if not probes:
            hint = "without an image it is one of the program itself; --scope and --skip may have left it out"
            raise UsageError("no-such-function", f"no function {self._typed} was followed", hint)
        return slow_calls(with_readable_names(trace).flow, self._mask(trace.flow), threshold)

    def _mask(self, flow: Flow) -> Bools:
        names = [name for name in flow.names("function") if self._is_called(name)]
        return flow.is_named("function", *names) & flow.is_named("image", *self._images)

    def _is_meant(self, function: str, image: str) -> bool:
        return image in self._images and self._is_called(function)

    def _is_called(self, function: str) -> bool:
        typed = self._typed.function
        return function == typed or fnmatch.fnmatchcase(function, typed) or lookup.goes_by(function, typed)
