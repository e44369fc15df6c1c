# SPDX-License-Identifier: LGPL-2.1-or-later
"""D programs for callers who take the events one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field

from gilk.engines.dtrace.acting import Formatted
from gilk.engines.dtrace.asked import Asked, let_go, prepare
from gilk.engines.dtrace.compiled import DoesNotCompile
from gilk.engines.dtrace.consumer import Consumer
from gilk.engines.dtrace.enabling import NoSuchProbe
from gilk.engines.dtrace.outlet import Outlet
from gilk.errors import CompileError, UsageError
from gilk.trace.d.events import Event, Exited, Snapshot
from gilk.values import dataclass


@dataclass
class DtraceSession:
    """A D program as a context manager, which is iterated over once inside the context. At its end all probes are gone.

    Events come as things happen. An event's action is carried out in its turn: system() runs its command while the
    iterator is asked for the next event.
    """

    asked: Asked
    outlet: Outlet
    formatted: Formatted
    until: Callable[[], bool] = lambda: False  # called from time to time; returns whether to stop
    starting: Callable[[], AbstractContextManager[None]] = nullcontext  # the context in which probes are inserted
    _consumer: Consumer = field(init=False)
    _stopped: bool = False
    _under_way: bool = False

    def __enter__(self) -> DtraceSession:
        """Attach or launch, and compile.

        Raises GilkError, among others CompileError `bad-d-program` and UsageError `no-such-probe`; then everything is
        let go.
        """
        self._consumer = prepare(self.asked)
        try:
            self._compile()
        except BaseException:
            let_go(self._consumer)
            raise
        return self

    def _compile(self) -> None:
        try:
            self._consumer.compile()
        except DoesNotCompile as error:
            wrong = error.wrong
            place = f"{wrong.file}:{wrong.line}: " if wrong.text.kind == "script" else ""
            raise CompileError("bad-d-program", f"{place}[{wrong.diagnostic.tag}] {error}") from None
        except NoSuchProbe as error:
            raise UsageError("no-such-probe", str(error), error.why or "gilk dtrace -l lists probes") from None

    def __exit__(self, *_: object) -> None:
        self._under_way = False
        let_go(self._consumer)

    def __iter__(self) -> Iterator[Event]:
        """The events, from `Matched` to `Exited`. Raises GilkError."""
        yield from self._consumer.matched
        with self.starting():
            lacking = self._consumer.start()
        self._under_way = True
        yield from lacking
        for event in self._consumer.events(lambda: self._stopped or self.until(), self.outlet, self.formatted):
            self._under_way &= not isinstance(event, Exited)
            yield event

    def contents(self) -> list[Snapshot]:
        """The present contents of all aggregations; [] unless the program runs."""
        return self._consumer.contents() if self._under_way else []

    def stop(self) -> None:
        """End as exit() does: END fires, and aggregations follow. May be called from any thread, and from a signal's
        handler."""
        self._stopped = True
