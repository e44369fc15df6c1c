# SPDX-License-Identifier: LGPL-2.1-or-later
"""Print the results as a table and as JSON, with the known reasons for tests that do not pass."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

from conformance_suite.comparison import Verdict

RESULTS = ("passed", "tag", "failed", "skipped")


def reasons(path: Path) -> dict[str, str]:
    """The known reasons, by glob patterns of test names. The first pattern that matches a name counts."""
    found: dict[str, str] = tomllib.loads(path.read_text())["reasons"]
    return found


def reason(name: str, known: dict[str, str]) -> str:
    return next((why for pattern, why in known.items() if fnmatchcase(name, pattern)), "")


def table(results: dict[str, Verdict], known: dict[str, str]) -> str:
    """The lines for tests that do not pass, with their reasons if known, and the summary."""
    lines = []
    for name, verdict in results.items():
        if verdict.result in ("tag", "failed"):
            lines.append(f"{verdict.result:7} {name}  {verdict.why}")
            if why := reason(name, known):
                lines.append(f"{'':8}{why}")
    return "\n".join([*lines, summary(results)])


def summary(results: dict[str, Verdict]) -> str:
    """The number of tests by result, and rates among those that were not skipped."""
    counted = Counter(verdict.result for verdict in results.values())
    graded = sum(counted[each] for each in RESULTS[:3])
    told = ", ".join(f"{counted[each]} {each}" for each in RESULTS)
    if not graded:
        return told
    strict, tagged = counted["passed"] / graded, (counted["passed"] + counted["tag"]) / graded
    return f"{told}: {strict:.1%} passed, {tagged:.1%} with the right tag"


def as_json(results: dict[str, Verdict], known: dict[str, str]) -> str:
    rows = [
        {"name": name, "result": verdict.result, "why": verdict.why, "reason": reason(name, known)}
        for name, verdict in results.items()
    ]
    return json.dumps(rows, indent=1)
