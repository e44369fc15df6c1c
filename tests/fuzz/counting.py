# SPDX-License-Identifier: LGPL-2.1-or-later
"""Compare one instrument's count of calls with the counts at all entries."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

from pyarrow import parquet

from tests.behaviour.harness import ROOT, run
from tests.fuzz.commands import Asked
from tests.fuzz.running import Ended, Place, differs, faults
from tests.fuzz.subjects import Subject

_FORKS = {"bash", "dash", "fork"}  # their children are missing in some of these answers
Calls = dict[str, int]


@cache
def _reference(subject: Subject) -> Calls:
    """The counts by function, without functions that share a name or are not called equally often in two runs."""
    first, second = (run(["*:entry=count"], subject.command, subject.stdin).report for _ in range(2))
    counts = {point.rsplit(":", 2)[1]: n for point, n in first["counts"].items() if second["counts"].get(point) == n}
    return {name: n for name, n in counts.items() if name in subject.functions and "." not in name}


def compared(subject: Subject, chance: random.Random, place: Place) -> tuple[list[str], Ended, list[str]]:
    """Run a random command. Returns it, its end, and the differences from the reference."""
    known = _reference(subject) if subject.name.partition("+")[0] not in _FORKS else {}
    called = [name for name, n in known.items() if 0 < n < 50_000]
    if not called:
        return [], Ended(0, b"", ""), []
    chosen = chance.sample(called, min(chance.choice([1, 1, 2, 3, 8]), len(called)))
    chosen += chance.sample(sorted(known), min(2, len(known))) if chance.random() < 0.3 else []
    asked, read = chance.choice([_by_run, _by_trace, _by_trace, _by_dtrace])(
        subject, list(dict.fromkeys(chosen)), chance
    )
    words = place.command(asked, ["--", *subject.command])
    ended = place.run(words, subject.stdin)
    wrong = [*faults(asked, ended), *differs(asked, subject, ended)]
    refused = "not instrumented" in ended.err or "refused" in ended.err or "not followed" in ended.err
    if not wrong and not ended.slugs and not refused:
        got = read(place.path)
        wrong += [
            f"{name}: {got.get(name, 0)} calls, not {known[name]}" for name in chosen if got.get(name, 0) != known[name]
        ]
    return words, ended, wrong


Made = tuple[Asked, Callable[[Path], Calls]]


def _by_run(subject: Subject, names: list[str], chance: random.Random) -> Made:
    what = chance.choice(["stamp", "args", "regs", "time", f"{ROOT}/examples/simple_instr.c:simple_instr"])
    words = [
        "run",
        "-o",
        "FILE.parquet",
        *(w for name in names for w in ("-i", f"{subject.image}:{name}:entry={what}")),
    ]
    if chance.random() < 0.3:
        words += ["-i", f"{subject.image}:*:blocks=count"]
    return Asked("run", tuple(words)), lambda path: _rows(path / "f0.parquet")


def _by_trace(subject: Subject, names: list[str], chance: random.Random) -> Made:
    words = [
        "trace",
        "--all",
        "-o",
        "FILE.parquet",
        *(w for name in names for w in ("--scope", f"{subject.image}:{name}")),
    ]
    return Asked("trace", tuple(words)), lambda path: _rows(path / "f0.parquet")


def _by_dtrace(subject: Subject, names: list[str], chance: random.Random) -> Made:
    clause = (
        "{ @[probefunc] = count(); }" if chance.random() < 0.7 else "{ @[probefunc] = count(); self->x = timestamp; }"
    )
    probes = ", ".join(f"pid$target:{subject.image}:{name}:entry" for name in names)
    words = ("dtrace", "--json", "-o", "FILE.txt", "-n", f"{probes} {clause}")
    return Asked("dtrace", words), lambda path: _aggregated(path / "f0.txt")


def _rows(file: Path) -> Calls:
    """The number of calls by function; returns, and the ends of calls, are not counted."""
    table = parquet.read_table(file, columns=["function", "kind"])
    kinds = table.column("kind").to_pylist()
    return Counter(
        f for f, kind in zip(table.column("function").to_pylist(), kinds, strict=True) if not kind.endswith("-return")
    )


def _aggregated(file: Path) -> Calls:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    rows = [row for line in lines if line["type"] == "snapshot" for row in line["rows"]]
    return {row["keys"][0]: row["values"][0] for row in rows}
