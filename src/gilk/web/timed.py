# SPDX-License-Identifier: LGPL-2.1-or-later
"""Workers whose questions have a time limit: a worker that exceeds it is killed, and another takes its place."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from gilk.web.children import GONE, Children, ServerChild, ToldError

Json = dict[str, Any]
_BEGINS_WITHIN: Final = 60.0  # the seconds that a worker may take to begin, on a busy machine


class TimedWorkers:
    """Workers of one program, one for each role. Each is asked one question after the other, so that a question has all
    of its time. It must also answer ``ready``. ``said``: by role, the last state that a worker has sent
    unasked.
    """

    def __init__(self, children: Children, program: str, too_slow: ToldError) -> None:
        self._children, self._program, self._too_slow = children, program, too_slow
        self._workers: dict[str, ServerChild] = {}
        self._free: dict[str, asyncio.Lock] = {}
        self.said: dict[str, Json] = {}

    def stop(self) -> None:
        for worker in self._workers.values():
            worker.kill()

    async def answer(self, role: str, within: float, what: str, **asked: Any) -> Json:
        """The answer of a worker within ``within`` seconds. Raises ToldError: the worker's own, ``too_slow`` and
        `child-gone`.
        """
        async with self._free.setdefault(role, asyncio.Lock()):
            worker = await self._worker(role)
            self.said.pop(role, None)
            try:
                return await asyncio.wait_for(worker.ask(what, **asked), within)
            except TimeoutError:
                self._end(role)
                raise self._too_slow from None
            except asyncio.CancelledError:
                self._end(role)
                raise

    def _say(self, role: str, state: Json) -> None:
        self.said[role] = state

    def _end(self, role: str) -> None:
        self._workers.pop(role).kill()

    async def _worker(self, role: str) -> ServerChild:
        """A worker that has begun; the time for that does not count for the question. Raises ToldError `child-gone`."""
        worker = self._workers.get(role)
        if worker is None or worker.process.returncode is not None:
            worker = self._workers[role] = await self._children.begun(
                self._program, lambda state: self._say(role, state)
            )
            try:
                await asyncio.wait_for(worker.ask("ready"), _BEGINS_WITHIN)
            except TimeoutError:
                self._end(role)
                raise GONE from None
        return worker
