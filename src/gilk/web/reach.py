# SPDX-License-Identifier: LGPL-2.1-or-later
"""The server's questions about what is within reach, which a worker answers (reach_worker.py)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from gilk.values import dataclass
from gilk.web.children import Children, ServerChild, ToldError
from gilk.web.grants import is_process

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReachedTarget:
    """A target within reach. ``name``: in the form that all commands use; ``title``: for people."""

    identity: str
    name: str
    title: str

    @property
    def pid(self) -> str:
        """The number of a process, as text."""
        return self.name.removeprefix("pid:")


class ReachQuestions:
    """Each question raises ToldError as the grants refuse it, also `child-gone`."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._worker: ServerChild | None = None
        self._beginning = asyncio.Lock()

    async def ask(self, what: str, **given: Any) -> Json:
        """The answer of the worker to a question."""
        async with self._beginning:
            if self._worker is None or self._worker.process.returncode is not None:
                self._worker = await self._children.begun("reach_worker")
        return await self._worker.ask(what, **given)

    def stop(self) -> None:
        if self._worker is not None:
            self._worker.kill()

    async def target(self, identity: str) -> ReachedTarget:
        found = await self.ask("target", target=identity)
        return ReachedTarget(identity, found["name"], found["title"])

    async def process(self, identity: str, refusal: str, hint: str) -> ReachedTarget:
        """A process. Raises ToldError `not-running` for a target of another kind, with ``refusal`` as its message."""
        found = await self.target(identity)
        if not is_process(identity):
            raise ToldError("not-running", refusal, hint)
        return found

    async def file(self, identity: str) -> Path:
        """The real path of a file."""
        return Path((await self.ask("file", file=identity))["path"])
