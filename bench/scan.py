# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure `gilk scan` of a program, fresh and from its cache, beside `objdump -d` of the same file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import Row

SOURCE = Path(__file__).parent.parent / "src"

LIBRARIES = "/lib/x86_64-linux-gnu"
CANDIDATES = ("/bin/bash", f"{LIBRARIES}/libc.so.6", f"{LIBRARIES}/libpython3.11.so.1.0", "/usr/bin/gdb")


def rows() -> Iterator[Row]:
    """The figures of each candidate file that this machine has."""
    for path in filter(Path.exists, map(Path, CANDIDATES)):
        what = f"scan {path.name}"
        start = time.monotonic()
        subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], stdout=subprocess.DEVNULL, check=True)
        yield Row(what, "objdump", time.monotonic() - start, "s", "disassembly only")
        yield from _gilk(what, path)


def _gilk(what: str, path: Path) -> Iterator[Row]:
    """The seconds of the whole command, as its users run it, with an empty cache and again."""
    with tempfile.TemporaryDirectory() as cache:
        for name in (what, f"{what}, again"):
            start = time.monotonic()
            report = _scan(path, cache)
            elapsed = time.monotonic() - start
            if error := report.get("error"):
                yield Row(name, "gilk", None, "s", f"{error['slug']}: {error['message']}"[:60])
                return
            yield Row(name, "gilk", elapsed, "s", _coverage(report) if name == what else "")


def _scan(path: Path, cache: str) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "GILK_CACHE": cache}
    command = [sys.executable, "-m", "gilk", "scan", str(path), "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    try:
        report = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return {"error": {"slug": "no-report", "message": f"exit status {done.returncode}"}}
    return report if isinstance(report, dict) else {}


def _coverage(report: dict[str, Any]) -> str:
    """A text with the share of points, before and after every block, that have a tactic."""
    shares = []
    for side in ("pre", "post"):
        tactics = report["points"][side]
        total = sum(tactics.values())
        shares.append(f"{100 * (1 - tactics.get('refused', 0) / total):.2f} % {side}" if total else "no points")
    return f"{report['blocks']} blocks, of their points {' and '.join(shares)} have a tactic"
