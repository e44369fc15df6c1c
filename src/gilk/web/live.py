# SPDX-License-Identifier: LGPL-2.1-or-later
"""One connection for each tab, by which it is sent the state of a session.

State is sent, not history: at most one update is under way, until the browser confirms it; meanwhile newer states
replace older ones. So a slow browser costs the memory of one state.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from gilk.web.children import ToldError
from gilk.web.keys import Keys
from gilk.web.sessions import Sessions, WebSession

_EVERY: Final = 0.1  # the seconds between two updates
_PATIENCE: Final = 10.0  # the seconds that the first message may take
_LONGEST: Final = 1000  # the most characters of a message from a browser
_REFUSED: Final = 1008  # RFC 6455: the message violates a policy


async def live(socket: WebSocket, keys: Keys, sessions: Sessions) -> None:
    """Serve one connection. The first message has the token, and the session's number."""
    await socket.accept()
    try:
        first = await asyncio.wait_for(_received(socket), _PATIENCE)
        if not keys.admits(str(first.get("token", ""))):
            await socket.close(_REFUSED, "no-token")
            return
        await _follow(socket, sessions.get(int(first.get("session", 0))))
    except ToldError as error:
        await socket.close(_REFUSED, error.slug)
    except (TimeoutError, ValueError, TypeError, AttributeError):
        await socket.close(_REFUSED, "bad-message")
    except WebSocketDisconnect:
        return


async def _received(socket: WebSocket) -> dict[str, Any]:
    """The next message. Raises ValueError, WebSocketDisconnect."""
    text = await socket.receive_text()
    found = json.loads(text) if len(text) <= _LONGEST else None
    if not isinstance(found, dict):
        raise ValueError("a message is a small object")
    return found


async def _follow(socket: WebSocket, session: WebSession) -> None:
    sent, revision = dict[str, Any](), -1
    while True:
        revision, now = session.revision, session.shown()
        await socket.send_text(json.dumps(difference(sent, now)))
        await _received(socket)  # the browser has confirmed the update
        sent = now
        if session.end and "report" in now:
            await socket.close()
            return
        await asyncio.gather(asyncio.sleep(_EVERY), session.changed_since(revision))


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The members of ``new`` that differ from ``old``; of the counts only those that differ."""
    found = {name: value for name, value in new.items() if name not in old or old[name] != value}
    if "counts" in found and "counts" in old:
        was = old["counts"]
        found["counts"] = {point: count for point, count in new["counts"].items() if was.get(point) != count}
    return found
