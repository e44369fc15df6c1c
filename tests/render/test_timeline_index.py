# SPDX-License-Identifier: LGPL-2.1-or-later
"""The cached index of a trace gives the trace's answers, and none if it was tampered with."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import long_trace
from gilk.cache import columns
from gilk.errors import StoreError
from gilk.render import timeline, timeline_index
from gilk.render.flow_table import functions
from gilk.trace.about import Tally
from gilk.trace.reading import read
from gilk.trace.traced import TraceDescription
from gilk.web import file_worker
from tests.trace.machine import nested, run, write


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(timeline_index, "_ROWS", 300)
    file_worker._opened.clear()
    return tmp_path / "cache" / "traces"


def answers(path: Path) -> list[Any]:
    """The answers to all sorts of questions about the file."""
    file_worker._opened.clear()
    head = file_worker.timeline(str(path))
    zoom = max(0, (head["span"] // 512).bit_length())
    return [
        head,
        *(file_worker.tile(str(path), each, 0, 0, query) for each in (0, zoom // 2, zoom) for query in ("", "b")),
        *(file_worker.call(str(path), number) for number in range(0, head["calls"], 97)),
        file_worker.view(str(path), 0, head["span"]),
        file_worker.find(str(path), "a", 3, False),
    ]


def test_the_head_of_an_index_is_that_of_a_whole_page(tmp_path: Path) -> None:
    """The page of `gilk show --html` is made of the whole trace at once."""
    for seed in range(4):
        path = write(tmp_path / f"{seed}.parquet", run(seed, 2000, threads=3, kernel=seed % 2 == 1).records)
        head, whole = timeline_index.opened(path).head, timeline.summary(read(path))
        for name in ("heading", "about", "losses", "span", "calls", "images", "functions", "omitted", "gaps"):
            assert head[name] == whole[name], name
        assert [(each["name"], each["calls"]) for each in head["tracks"]] == [
            (each["name"], each["calls"]) for each in whole["tracks"]
        ]


def test_a_call_has_its_callers_and_its_calls(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", run(5, 3000, threads=2).records)
    flow, parts = read(path).flow, timeline_index.opened(path)
    parent, names = flow.column("parent").tolist(), flow.table["function"].to_pylist()
    own = flow.self_times.tolist()
    for call in range(0, flow.table.num_rows, 7):
        found, above, around = parts.call(call), [], call
        while (around := parent[around]) >= 0:
            above.append(around)
        assert (found["call"], found["function"], found["self"]) == (call, names[call], own[call])
        assert [each["call"] for each in found["callers"]] == above
        assert {each["call"] for each in found["children"]} == {n for n, each in enumerate(parent) if each == call}
        assert found["function_calls"] == names.count(names[call])


def test_figures_of_an_index_are_those_of_the_table_of_functions(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", run(2, 3000, threads=3).records)
    whole = {(row["function"], row["calls"], row["self"]) for row in functions(read(path).flow)}
    found = timeline_index.opened(path).view(-1, 1 << 60)
    assert {(row["function"], row["calls"], row["self"]) for row in found["functions"]} == whole


def test_an_index_is_made_once(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x.parquet", run(1, 3000).records)
    told: list[tuple[int, int]] = []
    timeline_index.opened(path, lambda done, of: told.append((done, of)))
    count = read(path).samples.num_rows
    assert len(told) == -(-count // 300) and told[-1] == (count, count)
    first = answers(path)
    monkeypatch.setattr(timeline_index, "_made", None)
    assert answers(path) == first
    monkeypatch.undo()
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "cache"))
    write(path, nested(("a", 10)))
    assert timeline_index.opened(path).head["calls"] == 1
    assert len([*cache.iterdir()]) == 2


def test_indexes_of_traces_with_a_depth_are_cached_too(tmp_path: Path, cache: Path) -> None:
    """A trace with a depth is processed as a whole."""
    records = run(1, 1000).records
    trace = TraceDescription(records[0][0], records[-1][0], "now", "exit", depth=2)
    path = write(tmp_path / "x.parquet", records, Tally(partial=False, trace=trace))
    assert {track["rows"] for track in timeline_index.opened(path).head["tracks"]} == {2}
    (file,) = cache.iterdir()
    before = file.stat().st_mtime_ns
    assert timeline_index.opened(path).head["calls"] == read(path).flow.table.num_rows
    assert file.stat().st_mtime_ns >= before


def test_an_index_that_was_tampered_with_is_made_again(tmp_path: Path, cache: Path) -> None:
    path = write(tmp_path / "x.parquet", run(3, 2000, threads=2).records)
    good, chance = answers(path), random.Random(1)
    (file,) = cache.iterdir()
    data = file.read_bytes()
    for number in range(40):
        bad = bytearray(data)
        for _ in range(1 + number):
            bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        file.write_bytes(bad[: len(bad) - (number % 4 == 3)])
        assert answers(path) == good
    assert file.read_bytes() != bytes(bad)


@pytest.mark.parametrize("name", ["call", "place", "symbol", "start", "state"])
@pytest.mark.parametrize("value", [-(2**31), -1, 2**31 - 1])
def test_a_forged_index_with_wrong_numbers_does_not_end_the_worker(
    tmp_path: Path, cache: Path, name: str, value: int
) -> None:
    """The numbers have a valid seal: the worker answers, or makes the index again."""
    path = write(tmp_path / "x.parquet", run(3, 500).records)
    key = timeline_index._key(path)
    timeline_index.opened(path)
    found = columns.load("traces", key)
    assert found is not None
    kept = {each: np.array(column) for each, column in found.columns.items()}
    kept[name][:] = np.array(value).astype(kept[name].dtype)

    def build(room: columns.Room) -> Any:
        made = room({each: (column.dtype.str, len(column)) for each, column in kept.items()})
        for each, column in kept.items():
            made[each][:] = column
        return found.about

    columns.make("traces", key, build)
    assert isinstance(answers(path), list)


def test_a_damaged_file_is_refused(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1" + b"\xff" * 500 + b"PAR1")
    with pytest.raises(StoreError):
        timeline_index.opened(path)
    assert not [*cache.iterdir()]


def test_the_generated_trace_of_the_bench_has_its_documented_shape(tmp_path: Path) -> None:
    """It has the shape that its page in docs/bench.md says, and most of its calls are plain."""
    long_trace.write(tmp_path / "x.parquet", 20_000)
    flow = read(tmp_path / "x.parquet").flow
    assert 15_000 < flow.table.num_rows < 25_000 and len(flow.tracks) == long_trace.THREADS
    assert timeline_index.opened(tmp_path / "x.parquet").head["calls"] == flow.table.num_rows
