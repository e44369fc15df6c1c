# SPDX-License-Identifier: LGPL-2.1-or-later
"""The JSON that a module of gilk prints, run in a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, Final

Json = dict[str, Any]
_WITHIN: Final = 120.0  # the seconds that it may take, on a busy machine


async def printed(module: str, *words: str) -> Json | None:
    """The object that the module prints; None if it prints none, or takes too long.

    If the wait is cancelled, the process is killed.
    """
    pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    command = (sys.executable, "-P", "-m", module, *words)
    process = await asyncio.create_subprocess_exec(*command, stdin=none, stdout=pipe, stderr=none)
    try:
        output, _ = await asyncio.wait_for(process.communicate(), _WITHIN)
        found: Json = json.loads(output)
        return found
    except (TimeoutError, ValueError):
        return None
    finally:
        if process.returncode is None:
            process.kill()
