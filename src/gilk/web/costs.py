# SPDX-License-Identifier: LGPL-2.1-or-later
"""The costs of instruments on this machine, for pages."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request

from gilk.errors import GilkError
from gilk.web.children import Children, ToldError
from gilk.web.printed import printed

Json = dict[str, Any]


class CostPages:
    """``acts``: whether instruments may be put in, and so also into the program on which they are measured."""

    def __init__(self, acts: bool, children: Children) -> None:
        self._acts, self._children = acts, children
        self._found: asyncio.Task[Json] | None = None

    async def page(self, _request: Request) -> Json:
        """``each_ns``: what a hit of each instrument takes, in ns; None if that is not known, and ``why``."""
        if not self._acts:
            return {"each_ns": None, "why": "this window only shows"}
        return await asyncio.shield(self.wanted())

    def wanted(self) -> asyncio.Task[Json]:
        """The costs, which are measured the first time, in a process of its own."""
        if self._found is None:
            self._found = asyncio.create_task(_measured(self._children))
        return self._found

    def stop(self) -> None:
        if self._found is not None:
            self._found.cancel()


async def _measured(children: Children) -> Json:
    try:
        found = await printed(children.starting, "costing")
    except (GilkError, ToldError):
        found = None
    return found or {"each_ns": None, "why": "measuring has failed, or has taken too long"}
