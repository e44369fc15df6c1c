# SPDX-License-Identifier: LGPL-2.1-or-later
"""A window served by a process of its own, as for users, and requests to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.behaviour.harness import ENVIRONMENT, Loop, differences, leftovers, wait_for

PATIENCE = 300  # seconds: an answer may wait for a process to begin, on a busy machine


@dataclass(frozen=True)
class Served:
    """A running window. ``address`` contains the one-time key."""

    process: subprocess.Popen[str]
    address: str
    port: int
    key: str
    audit: Path

    def send(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: Any = None
    ) -> tuple[int, Any, http.client.HTTPMessage]:
        """Send a request. Returns the status, the object of the answer (or its text), and the headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, dict(headers or {}))
            answer = connection.getresponse()
            text = answer.read().decode()
            found = json.loads(text) if answer.headers.get_content_type() == "application/json" else text
            return answer.status, found, answer.headers
        finally:
            connection.close()

    def token(self) -> str:
        status, found, _ = self.send("POST", "/key", body={"key": self.key})
        assert status == 200, found
        return str(found["token"])

    def audited(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.audit.read_text().splitlines()]


@contextlib.contextmanager
def served(place: Path, *options: str | Path) -> Iterator[Served]:
    """Run ``gilk web`` with these options. It has to end with status 0 when it is told to."""
    audit = place / "audit.jsonl"
    words = [sys.executable, "-m", "gilk", "web", "--json", "--audit", audit, *options]
    with subprocess.Popen(words, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            address = json.loads(line)["address"]
            base, _, key = address.partition("/#key=")
            yield Served(process, address, int(base.rpartition(":")[2]), key, audit)
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


class Asking:
    """A browser's part in requests: it has the token."""

    def __init__(self, window: Served, token: str = "") -> None:
        self.window = window
        self.token = token or window.token()

    def get(self, path: str) -> Any:
        return self._said("GET", path)

    def content(self, path: str) -> bytes:
        """The bytes of an answer that is no JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.window.port, timeout=PATIENCE)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
            return connection.getresponse().read()
        finally:
            connection.close()

    def post(self, path: str, **given: Any) -> Any:
        return self._said("POST", path, given)

    def _said(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        return self.window.send(method, path, headers, body)[1]

    def target(self, pid: int) -> str:
        return next(one["id"] for one in self.get("/index.json")["processes"] if one["pid"] == pid)

    def live(self) -> ClientConnection:
        port = self.window.port
        return connect(f"ws://127.0.0.1:{port}/live", origin=f"http://127.0.0.1:{port}")  # type: ignore[arg-type]


#: Prints the address with a new key that a user gets for a window, or the slug of the refusal. It has the modules
#: before it becomes the user, who may not be able to read them.
ASKS = """
import os, sys
from gilk.api import windows
from gilk.errors import GilkError
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
try:
    print(windows.key(int(sys.argv[2])))
except GilkError as error:
    print(error.slug)
"""


def key_as(user: int, window: Served) -> str:
    """The answer to a user who asks for a new key of a window. Only root may ask as another user."""
    words = [sys.executable, "-c", ASKS, str(user), str(window.process.pid)]
    done = subprocess.run(words, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def clean(loop: Loop) -> bool:
    """Whether nothing of gilk's is left in the program, now or soon."""
    return wait_for(lambda: not leftovers(loop.pid) and not differences(loop.pid))
