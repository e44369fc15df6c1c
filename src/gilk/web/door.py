# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sends other users' connections away as soon as they are made: if they could wait, they would take all the places for
connections that there are, and the window's own user would get none.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from gilk.web import peer
from gilk.web.guard import ANOTHER_USER, body_of

_BODY: Final = body_of(ANOTHER_USER)
_ANSWER: Final = (
    b"HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


def door(users: frozenset[int], within: type[asyncio.Protocol]) -> type[asyncio.Protocol]:
    """A protocol that hands the connections of ``users`` over to one of the class ``within``."""

    class Door(asyncio.Protocol):
        def __init__(self, **given: Any) -> None:
            self._given = given

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            client, server = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
            if not client or peer.user_of(client[:2], server[:2]) not in users:
                transport.write(_ANSWER)
                transport.close()
                return
            inner = within(**self._given)
            transport.set_protocol(inner)
            inner.connection_made(transport)

    return Door
