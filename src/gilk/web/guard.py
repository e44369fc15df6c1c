# SPDX-License-Identifier: LGPL-2.1-or-later
"""The guard in front of all routes: a client that can speak to this server can run code as its user.

Every check is made for every method, before anything is routed, and refuses by default. A request is *open* if it is
for a page's frame or for a static file: they contain nothing about this machine, and a browser that opens an address
cannot send a token along. Nothing is accepted only because a browser sends it by itself: there are no cookies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gilk.values import dataclass
from gilk.web import peer
from gilk.web.keys import Keys

LOOPBACK_NAMES: Final = frozenset(("localhost", "127.0.0.1", "[::1]"))
POLICY: Final = "; ".join(
    (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' blob:",
        "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)  # fmt: skip
HEADERS: Final = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
#: Matches all paths of pages and files. Paths of pages have no dot, which is for twins and other paths with data: a
#: router may take a path for that of a twin even if it does not end like one.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_/.=-]*")
_LOOKING: Final = ("GET", "HEAD")
KEY_PATH: Final = "/key"
NEW_KEY_PATH: Final = "/key/new"
LIVE_PATH: Final = "/live"
ASSETS_PATH: Final = "/assets/"


@dataclass(frozen=True, slots=True)
class Turned:
    """The refusal of a request."""

    status: int
    slug: str
    message: str


ANOTHER_USER: Final = Turned(403, "another-user", "the other end of this connection is another user's")

Check = Callable[[Scope, Headers, "Gate"], Turned | None]


@dataclass(frozen=True)
class Gate:
    """The facts that checks need. ``users``: the users who may be at the other end; None on a Unix socket, which has
    mode 0600.
    """

    keys: Keys
    users: frozenset[int] | None


def is_open(scope: Scope) -> bool:
    """Whether a request needs no token. A live connection sends its token as the first message; a key is exchanged for
    one.
    """
    if scope["type"] == "websocket":
        return bool(scope["path"] == LIVE_PATH)
    if scope["method"] == "POST":
        return bool(scope["path"] == KEY_PATH)
    path = scope["path"]
    is_frame_or_file = "." not in path or (path.startswith(ASSETS_PATH) and ".json" not in path)
    return scope["method"] in _LOOKING and is_frame_or_file and _PLAIN.fullmatch(path) is not None


def _host(scope: Scope, headers: Headers, _gate: Gate) -> Turned | None:
    """Refuse names of other hosts that now lead to this machine (DNS rebinding)."""
    given = headers.getlist("host")
    if len(given) != 1 or _name(given[0]) not in LOOPBACK_NAMES:
        return Turned(421, "not-this-host", "this server answers to localhost, 127.0.0.1 and [::1] only")
    return None


def _name(host: str) -> str:
    """The host's name without the port, which is a different one at the far end of ssh -L."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def _origin(scope: Scope, headers: Headers, _gate: Gate) -> Turned | None:
    """Refuse requests from pages of other servers, including those of other users on this machine."""
    given = headers.getlist("origin")
    if not given and scope["type"] != "websocket":
        return None
    if given != [f"http://{headers.get('host', '')}"]:
        return Turned(403, "not-our-page", "the request comes from another page")
    return None


def _site(scope: Scope, headers: Headers, _gate: Gate) -> Turned | None:
    """Refuse requests that the browser itself says come from another site; ``none`` is an address that was typed. A
    page's frame may be opened from anywhere.
    """
    if all(given in ("same-origin", "none") for given in headers.getlist("sec-fetch-site")):
        return None
    opened = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    if opened and scope["type"] == "http" and scope["method"] in _LOOKING and is_open(scope):
        return None
    return Turned(403, "not-our-page", "the request comes from another site")


def _user(scope: Scope, _headers: Headers, gate: Gate) -> Turned | None:
    """Refuse other users of this machine, even if they have the token."""
    if gate.users is None:
        return None
    client, server = scope.get("client"), scope.get("server")
    user = peer.user_of(tuple(client), tuple(server)) if client and server else None
    return None if user in gate.users else ANOTHER_USER


def _token(scope: Scope, headers: Headers, gate: Gate) -> Turned | None:
    if is_open(scope):
        return None
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not gate.keys.admits(token):
        return Turned(401, "no-token", "open the address that `gilk web` or `gilk web --key` has printed")
    if scope["method"] not in _LOOKING and not gate.keys.acts and scope["path"] != NEW_KEY_PATH:
        return Turned(403, "read-only", "this window was started with --read-only")
    return None


#: All checks by name, in the order in which they are made.
CHECKS: Final[Mapping[str, Check]] = {"host": _host, "origin": _origin, "site": _site, "user": _user, "token": _token}


class Guard:
    def __init__(self, app: ASGIApp, gate: Gate, checks: Mapping[str, Check] = CHECKS) -> None:
        self._app, self._gate, self._checks = app, gate, checks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        turned = self._turned(scope)
        if turned is None:
            await self._app(scope, receive, _marked(scope, send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": turned.slug})
        else:
            await _answer(turned, _marked(scope, send))

    def _turned(self, scope: Scope) -> Turned | None:
        headers = Headers(scope=scope)
        found = (check(scope, headers, self._gate) for check in self._checks.values())
        return next(filter(None, found), None)


def _marked(scope: Scope, send: Send) -> Send:
    """A function that sends messages like ``send``, with the security headers in every answer."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending


def body_of(turned: Turned) -> bytes:
    """The body of the answer that refuses a request, as JSON."""
    error: dict[str, Any] = {"slug": turned.slug, "message": turned.message, "hint": ""}
    return json.dumps({"error": error}).encode()


async def _answer(turned: Turned, send: Send) -> None:
    body = body_of(turned)
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": turned.status, "headers": head})
    await send({"type": "http.response.body", "body": body})
