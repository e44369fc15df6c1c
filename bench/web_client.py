# SPDX-License-Identifier: LGPL-2.1-or-later
"""A window that runs for a measurement, and requests to it."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent.parent / "src"
PATIENCE = 600  # seconds


class MeasuredWindow:
    """``address`` contains the one-time key; ``token`` is to be set before anything is asked."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process, self.address, self.token = process, address, ""
        self.base = address.partition("/#")[0]

    def get(self, path: str) -> Any:
        return self._said("GET", path, None)

    def post(self, path: str, **given: Any) -> Any:
        return self._said("POST", path, json.dumps(given))

    def _said(self, method: str, path: str, body: str | None) -> Any:
        connection = http.client.HTTPConnection(self.base.partition("//")[2], timeout=PATIENCE)
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {self.token}"})
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


@contextmanager
def window(place: Path, *options: str | Path) -> Iterator[MeasuredWindow]:
    """`gilk web` with these options."""
    words = [sys.executable, "-m", "gilk", "web", "--json", "--audit", place / "audit.jsonl", *options]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield MeasuredWindow(process, json.loads(process.stdout.readline())["address"])
        finally:
            process.terminate()
            process.wait(PATIENCE)
