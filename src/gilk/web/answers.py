# SPDX-License-Identifier: LGPL-2.1-or-later
"""The frame of handlers, which are given JSON and return JSON; errors are answered with their slugs."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gilk.errors import GilkError
from gilk.web.children import ToldError

Json = dict[str, Any]
Handler = Callable[[Request], Awaitable[Json]]
_LONGEST: Final = 1 << 20  # the most bytes of a request
#: The HTTP statuses of errors by their slugs, where children tell them, which know nothing of HTTP.
_STATUSES: Final = {"file-changed": 409, "only-in-the-lab": 403}


def answering(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint for a handler: it answers what the handler returns as JSON, or its error."""

    @functools.wraps(handler)
    async def endpoint(request: Request) -> Response:
        try:
            return JSONResponse(await handler(request))
        except ToldError as error:
            return failed(error)
        except GilkError as error:
            return failed(ToldError(error.slug, error.message, error.hint))

    return endpoint


async def while_there(request: Request, asking: Coroutine[Any, Any, Json]) -> Json:
    """The result of ``asking``, which is cancelled if the client disconnects. Raises what ``asking`` raises, and
    ToldError `gone-away`.
    """
    answer, gone = asyncio.create_task(asking), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        answer.cancel()
        raise ToldError("gone-away", "nobody waits for this any more", "", 499)
    finally:
        gone.cancel()
        answer.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def failed(error: ToldError) -> Response:
    told = {"slug": error.slug, "message": error.message, "hint": error.hint}
    return JSONResponse({"error": told}, _STATUSES.get(error.slug, error.status))


async def not_routed(_request: Request, error: Exception) -> Response:
    """The answer for an address that leads nowhere, or a method that the address does not have."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    return failed(ToldError("no-such-page", "there is nothing at this address", "", status))


async def given(request: Request, **kinds: type) -> Json:
    """The object that was sent; it must have the members ``kinds`` and no others, of these types. Raises ToldError
    `bad-request`.
    """
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _LONGEST:
            raise ToldError("bad-request", "the request is too long", "", 413)
    try:
        found = json.loads(bytes(body))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or set(found) != set(kinds):
        raise ToldError("bad-request", f"the request is not an object of {', '.join(kinds)}")
    for name, kind in kinds.items():
        if type(found[name]) is not kind:
            raise ToldError("bad-request", f"{name} is not of type {kind.__name__}")
    return found


def whole_number(text: str) -> int:
    """The number in ``text``, which is not negative. Raises ToldError `bad-request`."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise ToldError("bad-request", f"{text!r} is no number")
    return int(text)
