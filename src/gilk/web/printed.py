# SPDX-License-Identifier: LGPL-2.1-or-later
"""The JSON that a program of gilk prints, run in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any, Final

from gilk.web.starting import Started, Starting

Json = dict[str, Any]
_WITHIN: Final = 120.0  # the seconds that it may take, on a busy machine


async def printed(starting: Starting, program: str) -> Json | None:
    """The object that the program prints (programs.py); None if it prints none, or takes too long.

    If the wait is cancelled, the process is killed. Raises GilkError, ToldError.
    """
    started = await starting.start(program)
    try:
        found: Json = json.loads(await asyncio.wait_for(_output(started), _WITHIN))
        return found
    except (TimeoutError, ValueError):
        return None
    finally:
        started.process.kill()


async def _output(started: Started) -> bytes:
    """Everything that the program prints until its end."""
    os.close(started.writing)
    reader = asyncio.StreamReader()
    pipe = os.fdopen(started.reading, "rb", 0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        return await reader.read()
    finally:
        transport.close()
