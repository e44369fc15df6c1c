# SPDX-License-Identifier: LGPL-2.1-or-later
"""The ways in which a program is run under gilk, and how to read gilk's report, which follows the program's own
output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .differences import Spot
from .running import Ended

_POINTS = Path(__file__).with_name("points.py")
#: The words between `gilk` and `-- PROGRAM`, by way. TRACE stands for a file.
WAYS: dict[str, tuple[str, ...]] = {
    "instructions": ("run", "-i", f"prog:*=@{_POINTS}:instructions"),
    "blocks": ("run", "-i", "prog:*:blocks=count", "-i", "prog:*:blocks-post=count"),
    "time": ("run", "-i", "prog:*:entry=time"),
    "trace": ("trace", "-o", "TRACE"),
}


def command(gilk: list[str], way: str, scratch: Path, program: list[str]) -> list[str]:
    words = [str(scratch / "trace.parquet") if word == "TRACE" else word for word in WAYS[way]]
    return [*gilk, *words, "--json", "--", *program]


def parted(ended: Ended) -> tuple[Ended, dict[str, Any] | None]:
    """Split a run into the program's own end and gilk's report, the last of the output; the report is None if there
    is none."""
    start = ended.out.rfind(b"\n", 0, -1) + 1
    while (start := ended.out.find(b'{"', start)) >= 0:
        try:
            report = json.loads(ended.out[start:])
        except ValueError:
            start += 1
        else:
            return replace(ended, out=ended.out[:start]), report
    return ended, None


def read_spots(path: Path) -> dict[str, Spot]:
    """The places that the strategy wrote, by label. A label that stands for several places is left out."""
    found: dict[str, Spot] = {}
    several = set()
    for line in path.read_text().splitlines() if path.exists() else ():
        label, address, kind = line.split("\t")
        spot = Spot(int(address), kind)
        if found.setdefault(label, spot) != spot:
            several.add(label)
    return {label: spot for label, spot in found.items() if label not in several}


def counted(report: Mapping[str, Any], spots: Mapping[str, Spot]) -> dict[str, int]:
    """The counters of the report whose places are known."""
    return {label: count for label, count in report.get("counts", {}).items() if label in spots}
