# SPDX-License-Identifier: LGPL-2.1-or-later
"""Clients of a weaver that sends them away, or ends."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from gilk.errors import UsageError
from gilk.session.broker.control import WEAVE, ControlServer, ask, servers
from tests.behaviour.harness import wait_for

_CONNECT = 42  # the number of the system call


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


def test_a_client_waits_in_line_for_a_weaver_that_others_ask_all_the_time() -> None:
    with ControlServer(lambda words: words) as server, ExitStack() as others:
        address, answers = f"\0gilk-{WEAVE}-{os.geteuid()}-{os.getpid()}", list[object]()
        while True:
            end = others.enter_context(socket.socket(socket.AF_UNIX))
            end.setblocking(False)
            try:
                end.connect(address)
            except BlockingIOError:
                break
        asking = threading.Thread(target=lambda: answers.append(ask(os.getpid(), {"do": "show"})))
        asking.start()
        waiting = Path(f"/proc/self/task/{asking.native_id}/syscall")
        wait_for(lambda: waiting.read_text().startswith(f"{_CONNECT} "))
        others.close()
        while not answers:
            server.answer()
        asking.join()
    assert answers == [{"do": "show"}]


def test_a_process_that_weaves_nothing_is_told_so() -> None:
    assert not [one for one in servers(WEAVE) if one.pid == os.getpid()]
    with pytest.raises(UsageError) as caught:
        ask(os.getpid(), {"do": "show"})
    assert caught.value.slug == "no-such-weaving"
