# SPDX-License-Identifier: LGPL-2.1-or-later
"""Live widgets: the pages of the window in a notebook, from the same modules."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlencode, urlsplit

import anywidget
import traitlets

from gilk.api.dtrace import DtraceSession, events
from gilk.api.running import look_at
from gilk.errors import StoreError, TargetError
from gilk.notebook.bundle import script
from gilk.notebook.pages import NotebookPages
from gilk.web.grants import Grants, identity_of, identity_of_file
from gilk.web.growing import GrowingAggregations

Json = dict[str, Any]
_EVERY: Final = 0.5  # the seconds between two looks at a session


class RecordDrops(Protocol):
    """The source of records of a session."""

    def drops(self) -> int: ...


class Counting(Protocol):
    """A session in a process or a kernel."""

    closed: bool

    def counts(self) -> dict[str, int]: ...

    @property
    def drain(self) -> RecordDrops: ...


class GilkWidget(anywidget.AnyWidget):
    """A widget that shows the page at ``address``. ``own``: by path, functions that answer in place of ``pages``."""

    address = traitlets.Unicode().tag(sync=True)

    def __init__(self, address: str, pages: NotebookPages | None, own: dict[str, Callable[[], Json]]) -> None:
        self._pages, self._answers = pages, own
        self._asking: set[asyncio.Task[None]] = set()
        super().__init__(address=address)
        self.on_msg(self._heard)

    def _heard(self, _widget: object, asked: Json, _buffers: object) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(asked))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _answer(self, asked: Json) -> None:
        found = await self._found(str(asked["path"]))
        self.send({"id": asked["id"], **(found if "error" in found else {"ok": found})})

    def close(self) -> None:
        """Close the widget, and end the processes that answer for it."""
        super().close()
        with suppress(RuntimeError):  # without a loop there are none
            if self._pages is not None:
                self._ending = asyncio.get_running_loop().create_task(self._pages.stop())

    async def _found(self, path: str) -> Json:
        own = self._answers.get(urlsplit(path).path)
        if own is not None:
            return own()
        if self._pages is not None:
            return await self._pages.answer(path)
        return {"error": {"slug": "no-such-page", "message": "there is nothing at this address", "hint": ""}}


class _Followed(GilkWidget):
    """A widget that shows a state again and again: while the notebook waits for a cell, and whenever a cell calls
    ``update``.
    """

    def __init__(self, address: str, pages: NotebookPages | None, state: Callable[[], Json] | None) -> None:
        self._state, self._began, self._looked = state, time.monotonic(), 0.0
        self._shows_end = False  # whether the state that was shown last is the last one
        super().__init__(address, pages, {} if state is None else {"/session/0.json": self._now})
        if state is not None:
            self._again()

    def update(self) -> None:
        """Show the present state; at most twice a second, so that a loop may call it at every turn."""
        if self._state is not None and time.monotonic() - self._looked >= _EVERY:
            self._looked = time.monotonic()
            shown = self._now()
            self._shows_end = shown["end"] != ""
            self.send({"state": shown})

    def _now(self) -> Json:
        assert self._state is not None
        return {"number": 0, "seconds": round(time.monotonic() - self._began, 1), "end": "", **self._state()}

    def _again(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # without a loop, only ``update`` shows anything
        loop.call_later(_EVERY, self._tick)

    def _tick(self) -> None:
        self.update()
        if not self._shows_end:
            self._again()


def _counted(session: Counting) -> Json:
    """The state of a session; the records stay for whoever polls it."""
    counts = session.counts()
    return {
        "hits": sum(counts.values()),
        "drops": session.drain.drops(),
        "counts": counts,
        "requests": [f"{point}=count" for point in counts],
        "end": "It is over." if session.closed else "",
    }


class Counters(_Followed):
    """The counts of a session, of `Target.session()` or `Kernel.session()`, as they grow."""

    _esm = script("live_widget.js")

    def __init__(self, session: Counting) -> None:
        super().__init__("/session/0", None, lambda: _counted(session))


class LiveAggregations(_Followed):
    """The aggregations of a D program: numbers with bars, distributions as heat maps, stacks as flame graphs. The loop
    that takes the program's events calls ``update``.
    """

    _esm = script("live_widget.js")

    def __init__(self, session: DtraceSession) -> None:
        self._growing, self._session, self._over = GrowingAggregations(), session, False
        super().__init__("/session/0", None, self._grown)

    def update(self, event: events.Event | None = None) -> None:
        """Show what the aggregations have at present, at most twice a second. ``event``: the program's latest event;
        the last ones have what the aggregations had at the end.
        """
        if isinstance(event, events.Snapshot) and event.final:
            self._growing.finish(event)
        if isinstance(event, events.Exited):
            self._over, self._looked = True, 0.0
        super().update()

    def _grown(self) -> Json:
        if found := self._session.contents():
            self._growing.take(found, time.monotonic() - self._began)
        return {"aggregations": self._growing.shown(), "end": "It is over." if self._over else ""}


class Cfg(_Followed):
    """The blocks of a function as a graph. ``target`` and ``function`` are as for `gilk.cfg`. Points that are picked by
    a click are in ``points``, as `gilk.parse_request` takes them; ``session``: its counts colour the blocks.

    Raises TargetError `no-such-process`.
    """

    _esm = script("graph_widget.js")
    points = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(self, target: str | Path, function: str, session: Counting | None = None) -> None:
        grants, identity = _target(str(target))
        image, _, name = function.rpartition(":")
        words = urlencode({"at": name, **({"image": image} if image else {})})
        state = None if session is None else lambda: _counted(session)
        super().__init__(f"/target/{identity}/function?{words}", NotebookPages(grants), state)


def _target(target: str) -> tuple[Grants, str]:
    """The grants for one target, and its identity in addresses."""
    kind, _, number = target.partition(":")
    if kind == "pid" and number.isdecimal():
        one = look_at(int(number))
        if one is None:
            raise TargetError("no-such-process", f"there is no process {number}")
        return Grants(pids=frozenset((one.pid,)), acts=False), identity_of(one)
    path = Path(os.path.realpath(target))
    return Grants(files=(path.parent,), acts=False), identity_of_file(path)


class Timeline(GilkWidget):
    """A file of samples: its time line, and beside it its tree, flame graph, anomalies, and questions in SQL.

    Raises StoreError `no-such-file`.
    """

    _esm = script("timeline_widget.js")

    def __init__(self, file: str | Path) -> None:
        path = Path(os.path.realpath(file))
        if not path.is_file():
            raise StoreError("no-such-file", f"there is no file {path}")
        pages = NotebookPages(Grants(files=(path.parent,), acts=False))
        super().__init__(f"/file/{identity_of_file(path)}/timeline", pages, {})
