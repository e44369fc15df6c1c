# SPDX-License-Identifier: LGPL-2.1-or-later
"""Starts and ends the server: on the loopback address of this machine, or at a Unix socket, and nowhere else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Final

import uvicorn

from gilk.api import windows
from gilk.errors import GilkError, UsageError
from gilk.values import dataclass
from gilk.web import assets, peer, routes
from gilk.web.audit import Audit
from gilk.web.door import door
from gilk.web.grants import Grants
from gilk.web.guard import Gate
from gilk.web.keys import Keys
from gilk.web.separation import RootStarting, separated

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BACKLOG: Final = 128
_MOST_AT_ONCE: Final = 200  # the most connections
_MESSAGE: Final = 4096  # the most bytes of a message over a WebSocket


@dataclass(frozen=True)
class Settings:
    """The settings of the server. ``port`` 0 means any free port. ``socket`` is the path of a socket to use instead of
    a port.
    """

    grants: Grants
    port: int = 0
    socket: Path | None = None
    audit: Path | None = None


def serve(settings: Settings, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP; then take everything out. ``ready`` is given the address.

    Raises UsageError `port-taken`, GilkError `window-incomplete`, StoreError.
    """
    from gilk.web.audit import usual_place

    files = assets.load()
    if files.missing:
        raise GilkError(
            "window-incomplete", f"this installation lacks {', '.join(files.missing)} of the window",
            "install gilk[web] again",
        )  # fmt: skip
    began, owner = time.time(), os.geteuid()
    audit = Audit(settings.audit or usual_place())
    with (
        _listening(settings) as (listener, shown),
        separated(settings.grants, audit.file, settings.socket) as starter,
    ):
        keys = Keys(settings.grants.acts)
        gate = Gate(keys, None if settings.socket else peer.trusted_users())
        window = routes.Window(settings.grants, keys, audit, files, starter)
        addresses = _Addresses(shown, keys, audit, owner)
        with windows.listening(
            lambda: {"address": str(settings.socket or shown), "since": began, "sessions": window.sessions.under_way},
            addresses.asked_for,
        ):
            asyncio.run(_served(window, gate, listener, lambda: ready(addresses.new()), starter))


@dataclass(frozen=True)
class _Addresses:
    """The addresses at which browsers are admitted. ``owner``: the user who began the window. That is root if it was by
    sudo: whoever opens the window has the rights of its programs.
    """

    base: str
    keys: Keys
    audit: Audit
    owner: int

    def new(self) -> str:
        """An address with a new key."""
        return f"{self.base}/#key={self.keys.make()}"

    def asked_for(self, asker: int) -> str:
        """The same, for the user ``asker``. Raises UsageError `not-your-window`."""
        if asker not in (0, self.owner):
            raise UsageError("not-your-window", "root has begun this window, and only root gets keys for it")
        self.audit.note("a key was made", "gilk web --key")
        return self.new()


@contextlib.contextmanager
def _listening(settings: Settings) -> Iterator[tuple[socket.socket, str]]:
    listener = _unix(settings.socket) if settings.socket is not None else _loopback(settings.port)
    try:
        port = listener.getsockname()[1] if settings.socket is None else 0
        yield listener, f"http://127.0.0.1:{port}" if port else "http://localhost:PORT"
    finally:
        listener.close()
        if settings.socket is not None:
            with contextlib.suppress(OSError):  # the starter has removed it where this process may not
                settings.socket.unlink()


def _loopback(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise UsageError("port-taken", f"port {port}: {error.strerror}", "without --port any free one does") from None
    return listener


def _unix(path: Path) -> socket.socket:
    """A socket for this user only: it has its mode before anybody can connect."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise UsageError("port-taken", f"{path}: {error.strerror}", "name a path where nothing is") from None
    finally:
        os.umask(before)
    return listener


async def _served(
    window: routes.Window, gate: Gate, listener: socket.socket, ready: Callable[[], None], starter: RootStarting | None
) -> None:
    """Serve until a signal, or until the starter has gone, if there is one. Raises GilkError `starter-gone`."""
    config = uvicorn.Config(
        routes.application(window, gate), log_level="error", access_log=False, lifespan="off", ws_max_size=_MESSAGE,
        limit_concurrency=_MOST_AT_ONCE, server_header=False, proxy_headers=False, ws="websockets-sansio",
    )  # fmt: skip
    if gate.users is not None:
        config.load()
        config.http_protocol_class = door(gate.users, config.http_protocol_class)
    server = _Server(config)
    gone = starter.listen() if starter is not None else None
    async with _ended_by_signals() as end:
        task = asyncio.create_task(server.serve([listener]))
        while not server.started and not task.done():
            await asyncio.sleep(0.01)
        window.start()
        ready()
        ends = [asyncio.create_task(each.wait()) for each in (end, *([gone] if gone else []))]
        await asyncio.wait((task, *ends), return_when=asyncio.FIRST_COMPLETED)
        await window.stop()
        server.should_exit = server.force_exit = True
        for each in ends:
            each.cancel()
        await task
    if gone is not None and gone.is_set():
        why = "the process that starts the window's programs was killed; everything has been taken out"
        raise GilkError("starter-gone", why, "start the window again")


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to gilk, which takes everything out first."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def _ended_by_signals() -> AsyncIterator[asyncio.Event]:
    """An event that the first signal sets. A second signal ends the server at once; its children then take everything
    out by themselves.
    """
    loop, end = asyncio.get_running_loop(), asyncio.Event()

    def arrived(number: int) -> None:
        if end.is_set():
            sys.stderr.flush()
            os._exit(128 + number)
        end.set()

    for number in _ENDING:
        loop.add_signal_handler(number, arrived, number)
    try:
        yield end
    finally:
        for number in _ENDING:
            loop.remove_signal_handler(number)
