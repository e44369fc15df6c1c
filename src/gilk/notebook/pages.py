# SPDX-License-Identifier: LGPL-2.1-or-later
"""The pages of the window that widgets show: the window's own routes answer, in this process and without a server."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from starlette.applications import Starlette
from starlette.types import Message

from gilk.web.assets import Assets
from gilk.web.audit import Audit
from gilk.web.grants import Grants
from gilk.web.keys import Keys
from gilk.web.routes import Window, routes

Json = dict[str, Any]


class _Unwritten(Audit):
    """An audit of pages that change nothing."""

    def __init__(self) -> None:
        self.path = Path(os.devnull)

    def note(self, what: str, command: str = "", outcome: str = "") -> None:
        pass


class NotebookPages:
    """Answers about what ``grants`` names. It changes nothing: only addresses that are read are answered."""

    def __init__(self, grants: Grants) -> None:
        self._window = Window(grants, Keys(acts=False), _Unwritten(), Assets({}, ""))
        self._app = Starlette(routes=routes(self._window))

    async def answer(self, path: str) -> Json:
        """The JSON at an address: the page's values, or ``{"error": ...}``."""
        address = urlsplit(path)
        parts: list[bytes] = []

        async def send(message: Message) -> None:
            parts.append(message.get("body", b""))

        scope = {
            "type": "http", "method": "GET", "path": unquote(address.path), "raw_path": address.path.encode(),
            "query_string": address.query.encode(), "headers": [], "http_version": "1.1", "scheme": "http",
            "root_path": "",
        }  # fmt: skip
        await self._app(scope, _nothing, send)
        try:
            found: Json = json.loads(b"".join(parts))
        except ValueError:
            return {"error": {"slug": "no-such-page", "message": "there is nothing at this address", "hint": ""}}
        return found

    async def stop(self) -> None:
        await self._window.stop()


async def _nothing() -> Message:
    """The request has no body, and nobody hangs up."""
    return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]
