# SPDX-License-Identifier: LGPL-2.1-or-later
"""The costs of instruments on this machine, for pages."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, Final

from starlette.requests import Request

Json = dict[str, Any]
_WITHIN: Final = 120.0  # the seconds that measuring may take, on a busy machine


class CostPages:
    """``acts``: whether instruments may be put in, and so also into the program on which they are measured."""

    def __init__(self, acts: bool) -> None:
        self._acts = acts
        self._found: asyncio.Task[Json] | None = None

    async def page(self, _request: Request) -> Json:
        """``each_ns``: what a hit of each instrument takes, in ns; None if that is not known, and ``why``."""
        if not self._acts:
            return {"each_ns": None, "why": "this window only shows"}
        return await asyncio.shield(self.wanted())

    def wanted(self) -> asyncio.Task[Json]:
        """The costs, which are measured the first time, in a process of its own."""
        if self._found is None:
            self._found = asyncio.create_task(_measured())
        return self._found

    def stop(self) -> None:
        if self._found is not None:
            self._found.cancel()


async def _measured() -> Json:
    pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "gilk.web.costing", stdin=none, stdout=pipe, stderr=none, start_new_session=True
    )  # fmt: skip
    try:
        output, _ = await asyncio.wait_for(process.communicate(), _WITHIN)
        found: Json = json.loads(output)
        return found
    except (TimeoutError, ValueError):
        return {"each_ns": None, "why": "measuring has failed, or has taken too long"}
    finally:
        if process.returncode is None:
            process.kill()
