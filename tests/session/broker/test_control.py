# SPDX-License-Identifier: LGPL-2.1-or-later
"""Clients of a weaver that sends them away, or ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from gilk.errors import UsageError
from gilk.session.broker.control import WEAVE, ControlServer, ask, servers


@contextmanager
def serving(first: Callable[[ControlServer], None]) -> Iterator[list[dict[str, object]]]:
    """A weaver in this process, in a thread that begins with ``first`` and then answers. Yields the requests."""
    asked: list[dict[str, object]] = []
    over = threading.Event()

    def answering(words: dict[str, object]) -> dict[str, object]:
        asked.append(words)
        return {"seen": len(asked)}

    with ControlServer(answering) as server:

        def serve() -> None:
            first(server)
            while not over.wait(0.01):
                server.answer()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield asked
        finally:
            over.set()
            thread.join()


def send_away(server: ControlServer) -> None:
    """Hang up on a client before its request comes, as on one that is too slow."""
    server._socket.setblocking(True)
    server._socket.accept()[0].close()
    server._socket.setblocking(False)


def test_a_client_that_is_sent_away_asks_again() -> None:
    with serving(send_away) as asked:
        assert ask(os.getpid(), {"do": "show"}) == {"seen": 1}
    assert asked == [{"do": "show"}]


def test_a_process_that_weaves_nothing_is_told_so() -> None:
    assert not [one for one in servers(WEAVE) if one.pid == os.getpid()]
    with pytest.raises(UsageError) as caught:
        ask(os.getpid(), {"do": "show"})
    assert caught.value.slug == "no-such-weaving"
