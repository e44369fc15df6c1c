# SPDX-License-Identifier: LGPL-2.1-or-later
"""`python -m bench`: measure everything, and print the table."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from bench import (
    aspect,
    d,
    follow,
    gilk_side,
    lab_costs,
    lab_d,
    lab_start,
    lab_uprobe,
    long_trace,
    peer_frida,
    peer_uftrace,
    peer_uprobe,
    report,
    room,
    scan,
    start,
    video,
    web,
)
from bench.limits import limits
from bench.measure import Programs, Row, build

COUNTS = (1000, 5000, 11_000)  # numbers of functions that are activated at once
SIDES = {
    "gilk": gilk_side, "d": d, "aspect": aspect, "follow": follow, "frida": peer_frida, "uftrace": peer_uftrace,
    "uprobe": peer_uprobe, "lab": lab_uprobe, "lab-d": lab_d, "lab-start": lab_start, "kernel": lab_costs,
    "start": start,
}  # fmt: skip


def chosen(only: list[str] | None, kernel_peers: bool) -> list[str]:
    """The sides to measure. uprobes change the running kernel, so they are measured only if ``kernel_peers`` asks
    for them."""
    names = only or [*SIDES, "video", "scan", "room", "long-trace", "web"]
    return [name for name in names if name != "uprobe" or kernel_peers]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description="gilk beside its peers and the machine's own limits.")
    parser.add_argument("--kernel-peers", action="store_true", help="also uprobes, which need root and the live kernel")
    sides = [*SIDES, "video", "scan", "room", "long-trace", "web"]
    parser.add_argument("--only", action="append", choices=sides, help="this side; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return parser.parse_args()


def measure(names: list[str], programs: Programs) -> Iterator[Row]:
    for name, side in SIDES.items():
        if name in names:
            yield from side.rows(programs, COUNTS)
    if "video" in names:
        yield from video.rows()
    if "scan" in names:
        yield from scan.rows()
    if "room" in names:
        yield from room.rows()
    if "long-trace" in names:
        yield from long_trace.rows()
    if "web" in names:
        yield from web.rows()


def main() -> int:
    options = arguments()
    programs = build(max(COUNTS))
    found, rows = limits(programs.limits), []
    for row in measure(chosen(options.only, options.kernel_peers), programs):
        rows.append(row)
        print(f"{row.tool}: {row.what}: {row.value} {row.unit} {row.note}", file=sys.stderr, flush=True)
    for line in report.markdown(rows, found):
        print(line)
    if options.json:
        options.json.write_text(json.dumps({"limits": found, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
