# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure the window with a trace of many calls: its first and later openings, and parts of it at several scales.

gilk's own writer makes the file, from four threads of one process: calls of nine functions, up to 24 deep, and now and
then calls that are left by a jump, as longjmp does.
"""

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

import numpy as np
import pyarrow as pa

from bench.measure import BUILD, Row
from gilk.api.traces import timeline_parts
from gilk.render.timeline_parts import PIXELS
from gilk.trace.about import About, Tally
from gilk.trace.clock import Clock
from gilk.trace.probes import ProbeRow
from gilk.trace.samples import NAME, schema
from gilk.trace.store import Writer
from gilk.trace.traced import TraceDescription

CALLS = 10_000_000
THREADS = 4
PART = 250_000  # calls that are generated at a time
FUNCTIONS = ("work", "parse", "lookup", "compare", "hash", "copy", "emit", "check", "grow")
SOURCE = Path(__file__).parent.parent / "src"
_MEMORY = {"most resident": "VmHWM:", "its own, after that,": "RssAnon:"}
_FRAME = 64  # bytes of stack for each frame
_DEEPEST = 24


def file(calls: int = CALLS) -> Path:
    """The file with so many calls; it is written only once."""
    path = BUILD / f"calls-{calls}.parquet"
    if not path.exists():
        BUILD.mkdir(exist_ok=True)
        write(path, calls)
    return path


def write(path: Path, calls: int) -> None:
    chance = np.random.default_rng(1)
    writer = Writer(path, schema({0}), _about())
    now = 1000
    for _ in range(-(-calls // PART)):
        table, now = _part(chance, min(PART, calls), now)
        writer.write(table)
    trace = TraceDescription(0, now, "now", "exit")
    writer.close(Tally(partial=False, duration=now, trace=trace))


def _about() -> About:
    probes = [
        ProbeRow(2 * n + side + 1, f"prog:{name}:{way}", name, "prog", f"time-{way}")
        for n, name in enumerate(FUNCTIONS) for side, way in enumerate(("entry", "return"))
    ]  # fmt: skip
    return About("bench", ("prog",), (1,), 0, 0, Clock(0, 0, 1.0), tuple(probes))


def _part(chance: np.random.Generator, calls: int, now: int) -> tuple[pa.Table, int]:
    """The records of some calls, and the time of the last record. All but a few of the calls return within this
    part."""
    threads = [_walk(chance, calls // THREADS) for _ in range(THREADS)]
    count = sum(len(enters) for enters, _, _ in threads)
    thread = np.repeat(np.arange(THREADS), [len(enters) for enters, _, _ in threads])
    at = np.concatenate([np.sort(chance.random(len(enters))) for enters, _, _ in threads])
    order = np.argsort(at, kind="stable")
    enters, depth, function = (np.concatenate([each[n] for each in threads])[order] for n in range(3))
    time = now + np.cumsum(chance.integers(20, 400, count))
    tid = (thread[order] + 1).astype(np.int32)
    sp = (0x1000_0000 * tid.astype(np.int64) - _FRAME * depth - 16).astype(np.uint32)
    side = np.where(enters, 0, 1).astype(np.int32)
    names = [f"t{n}" for n in range(THREADS)]
    points = [f"prog:{name}:{way}" for name in FUNCTIONS for way in ("entry", "return")]
    columns: dict[str, Any] = {
        "time": time, "pid": np.full(count, 1, np.int32), "tid": tid, "thread": _coded(tid - 1, names),
        "point": _coded(2 * function + side, points), "function": _coded(function, FUNCTIONS),
        "kind": _coded(side, ["time-entry", "time-return"]), "sp": sp, "value": pa.nulls(count, pa.int64()),
    }  # fmt: skip
    return pa.table([columns[field.name] for field in schema({0})], schema=schema({0})), int(time[-1])


def _walk(chance: np.random.Generator, calls: int) -> tuple[Any, Any, Any]:
    """For each record of a thread, in order: whether it is an entry, its depth, and its function."""
    walk = np.cumsum(np.where(chance.random(2 * calls) < 0.5, 1, -1)) % (2 * _DEEPEST)
    height = np.append(0, _DEEPEST - np.abs(_DEEPEST - walk))
    height = np.concatenate([height, np.arange(height[-1] - 1, -1, -1)])  # all calls return
    enters = np.diff(height) > 0
    deep = np.where(enters, height[1:], height[:-1])
    order = np.argsort(deep, kind="stable")
    pair = np.empty(len(deep), np.int64)
    first = enters[order]
    number = np.cumsum(first)
    pair[order] = number
    names = chance.integers(0, len(FUNCTIONS), int(number[-1]) + 1)
    function = names[pair]
    lost = (chance.random(len(deep)) < 2e-5) & ~enters  # the return of this call is never recorded
    return enters[~lost], deep[~lost], function[~lost]


def _coded(codes: Any, names: Any) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(list(names))).cast(NAME)


def rows() -> Iterator[Row]:
    """The figures of a file of ten million calls, opened by a process with an empty cache and by another that finds
    the index."""
    path = file()
    with tempfile.TemporaryDirectory() as cache:
        for name in ("opened first", "opened again"):
            yield from _opened(path, cache, name)


def _opened(path: Path, cache: str, name: str) -> Iterator[Row]:
    environment = os.environ | {"PYTHONPATH": f"{SOURCE}:{SOURCE.parent}", "GILK_CACHE": cache}
    command = [sys.executable, "-m", "bench.long_trace", str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        yield Row(f"trace of 10 M calls, {name}", "gilk", None, "s", done.stderr[-60:])
        return
    for what, value, unit, note in json.loads(done.stdout):
        yield Row(f"trace of 10 M calls, {name}: {what}", "gilk", value, unit, note)


def figures(path: Path) -> list[tuple[str, float, str, str]]:
    """The figures of this process, which opens the file and looks at it at several scales: name, value, unit, note."""
    began, used = time.monotonic(), time.process_time()
    parts = timeline_parts(path)
    span, middle = parts.head["span"], parts.head["span"] // 2
    scales = [(span >> part) // PIXELS for part in (0, 4, 8, 12, 16)]
    parts.tile(max(0, scales[0].bit_length()), 0, 0, "")
    elapsed, busy = time.monotonic() - began, time.process_time() - used
    found = [("until the first view", elapsed, "s", f"{busy:.2g} s of a processor")]
    found += [(f"{kind} memory", _memory(word) / 1024, "MiB", "") for kind, word in _MEMORY.items()]
    for part, width in zip((1, 16, 256, 4096, 65536), scales, strict=True):
        zoom = max(0, width.bit_length())
        costs = []
        for step in range(20):
            start = time.monotonic()
            tile = parts.tile(zoom, (middle >> zoom) // PIXELS + (step if part > 100 else 0), 0, "")
            costs.append((time.monotonic() - start) * 1e3)
        costs.sort()
        note = f"95 % {costs[18]:.3g} ms; {tile['calls']} calls drawn"
        found.append((f"a tile of 1/{part} of it", costs[10], "ms", note))
    return found


def _memory(word: str) -> int:
    """The KiB of memory in the line of /proc/self/status that begins with ``word``."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(word))


if __name__ == "__main__":
    print(json.dumps(figures(Path(sys.argv[1]))))
