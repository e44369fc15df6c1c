# SPDX-License-Identifier: LGPL-2.1-or-later
"""A page as a headless browser sees it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--window-size=1400,900"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def dom(page: Path, address: str = "", budget: int = 15_000) -> str:
    """The document after its scripts have run for at most `budget` ms of their own time."""
    assert CHROMIUM is not None, "no Chromium: tools/setup test installs it"
    with tempfile.TemporaryDirectory() as home:
        flags = [*FLAGS, f"--user-data-dir={home}", f"--virtual-time-budget={budget}", "--dump-dom"]
        command = [CHROMIUM, *flags, f"{page.as_uri()}{address}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    return done.stdout
