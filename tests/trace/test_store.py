# SPDX-License-Identifier: LGPL-2.1-or-later
"""Samples that were written are read again; whatever stops the writer, everything written before stays readable."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gilk.errors import StoreError
from gilk.trace import about
from gilk.trace.about import About, Tally, pack, unpack
from gilk.trace.clock import Clock
from gilk.trace.drain import Chunk, Identity
from gilk.trace.image_files import ImageFile
from gilk.trace.layout import INTEGER
from gilk.trace.probes import ProbeRow
from gilk.trace.reading import Trace, read
from gilk.trace.samples import Samples, schema
from gilk.trace.store import ABOUT_KEY, TALLY_KEY, Writer
from gilk.trace.table_file import partial_path

PROBES = (ProbeRow(1, "f:entry", "f", "prog", "time-entry"), ProbeRow(0, "g:entry", "g", "prog", "count", 0))
ABOUT = About("box", ("prog", "-x"), (100,), 5, 10**18, Clock(1, 2, 2.9), PROBES)
TALLY = Tally({"g:entry": 3}, drops=1, lost=2, nested=4, corrupt=5, duration=10**9, partial=False, report={"a": [1]})
SCHEMA = schema({0, 1})


def table(start: int, count: int, spread: int = 0) -> pa.Table:
    records = np.zeros(count, INTEGER)
    records["tsc"] = np.arange(start, start + count) * 2
    records["value"] = np.random.default_rng(start).integers(0, 1 << 63, count) if spread else np.arange(count)
    records["iid"] = 1
    samples = Samples(PROBES, Clock(0, 0, 2.0), 0, {0, 1}, lambda _pid, tid: f"t{tid}")
    early = samples.add([Chunk(Identity(100, 1 + start % 3, 0), 1, records)])
    return pa.concat_tables([early, samples.flush()]).unify_dictionaries().combine_chunks()


def write(path: Path, *tables: pa.Table) -> Path:
    writer = Writer(path, SCHEMA, ABOUT)
    for each in tables:
        writer.write(each)
    return writer.close(TALLY)


def test_files_without_addresses_and_images_are_read() -> None:
    """Earlier versions stored neither."""
    raw = json.loads(ABOUT.to_json())
    del raw["images"]
    for row in raw["probes"]:
        del row["address"]
    assert About.from_json(json.dumps(raw)) == ABOUT


def test_the_images_of_a_run_are_stored_with_it() -> None:
    files = (ImageFile("prog", Path("/usr/bin/prog"), "1234"),)
    assert About.from_json(replace(ABOUT, images=files).to_json()).images == files
    raw = json.loads(ABOUT.to_json())
    for bad in ([["prog", "/x"]], [["prog", "/x", 7]], 7):
        with pytest.raises(StoreError, match="list of images"):
            About.from_json(json.dumps(raw | {"images": bad}))


def test_written_samples_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parts = [table(start, 1000) for start in range(0, 5000, 1000)]
    assert write(path, *parts) == path
    trace = read(path)
    assert (trace.about, trace.tally) == (ABOUT, TALLY)
    assert trace.samples.to_pylist() == pa.concat_tables(parts).to_pylist()
    assert trace.samples.schema.equals(SCHEMA)
    assert os.listdir(tmp_path) == ["a.parquet"]


def test_a_path_may_be_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    assert read(str(path)).samples.equals(read(path).samples)
    with pytest.raises(StoreError) as refused:
        read(str(tmp_path / "none.parquet"))
    assert refused.value.slug == "no-such-file"


def test_other_tools_can_read_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", table(0, 10))
    assert pq.read_table(path)["time"].to_pylist() == list(range(10))
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"


def test_an_empty_session_makes_a_file(tmp_path: Path) -> None:
    trace = read(write(tmp_path / "a.parquet"))
    assert trace.samples.num_rows == 0
    assert trace.calls.table.num_rows == 0


def test_samples_that_came_late_are_put_in_order(tmp_path: Path) -> None:
    trace = read(write(tmp_path / "a.parquet", table(100, 10), table(50, 10), table(200, 10)))
    assert trace.samples["time"].to_pylist() == [*range(50, 60), *range(100, 110), *range(200, 210)]


KILLED = """
import os, signal, sys
sys.path.insert(0, {here!r})
import test_store as t
writer = t.Writer(t.Path(sys.argv[1]), t.SCHEMA, t.ABOUT)
for n in range(5):
    writer.write(t.table(n * 100, 100))
    writer.checkpoint(t.Tally({{"g:entry": n}}))
writer.write(t.table(500, 100))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_writer_leaves_a_readable_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    script = KILLED.format(here=str(Path(__file__).parent))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script, path], env=environment)
    assert done.returncode == -signal.SIGKILL
    assert not path.exists()
    trace = read(path)
    assert trace.path == partial_path(path)
    assert trace.samples["time"].to_pylist() == list(range(600))
    assert trace.tally == Tally({"g:entry": 4}, partial=True)


def test_a_partial_file_cut_anywhere_gives_its_whole_batches(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    writer = Writer(path, SCHEMA, ABOUT)
    for n in range(10):
        writer.write(table(n * 50, 50))
    writer.abandon()
    whole = partial_path(path).read_bytes()
    seen = set()
    for size in range(len(whole) - 1, 0, -97):
        partial_path(path).write_bytes(whole[:size])
        try:
            rows = read(path).samples["time"].to_pylist()
        except StoreError as error:
            assert error.slug == "bad-trace"
            continue
        assert rows == list(range(len(rows)))
        seen.add(len(rows))
    assert {0, 50, 450} <= seen <= set(range(0, 501, 50))


@pytest.fixture
def limited() -> Iterator[None]:
    """In the block, no file may grow beyond 200 000 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fill(path: Path) -> tuple[StoreError, Writer, Path]:
    writer = Writer(path, SCHEMA, ABOUT)
    with pytest.raises(StoreError) as caught:
        for n in range(100):
            writer.write(table(n * 1000, 1000, spread=1))
    kept = writer.records
    writer.write(table(100_000, 7))
    assert (writer.records, writer.unwritten) == (kept, 1007)
    return caught.value, writer, writer.close(TALLY)


def check_kept(error: StoreError, writer: Writer, left: Path) -> None:
    assert (error.slug, left) == ("disk-full", partial_path(writer.path))
    assert str(writer.records) in error.message
    trace = read(writer.path)
    assert trace.samples["time"].to_pylist() == list(range(writer.records))
    assert trace.tally.partial
    assert writer.records > 5000


@pytest.mark.usefixtures("limited")
def test_a_file_at_its_size_limit_keeps_its_samples(tmp_path: Path) -> None:
    check_kept(*fill(tmp_path / "a.parquet"))


@pytest.mark.usefixtures("limited")
def test_a_file_without_room_for_samples_can_be_read(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a.parquet", SCHEMA, ABOUT)
    with pytest.raises(StoreError):
        writer.write(table(0, 100_000, spread=1))
    writer.close(TALLY)
    trace = read(partial_path(writer.path))
    assert (trace.samples.num_rows, trace.tally.partial) == (0, True)


needs_mount = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small file system")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with 256 kB of room."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "gilk-test", tmp_path], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


@needs_mount
def test_a_file_on_a_full_disk_keeps_its_samples(small_disk: Path) -> None:
    check_kept(*fill(small_disk / "a.parquet"))


@needs_mount
def test_a_disk_full_at_the_last_step_leaves_the_partial_file(small_disk: Path) -> None:
    writer = Writer(small_disk / "a.parquet", SCHEMA, ABOUT)
    writer.write(table(0, 17_000, spread=1))
    assert writer.trouble is None
    assert writer.close(TALLY) == partial_path(writer.path)
    assert writer.trouble is not None and writer.trouble.errno == errno.ENOSPC
    check_last_step(writer)


def test_an_output_name_taken_by_a_directory_leaves_the_partial_file(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a.parquet", SCHEMA, ABOUT)
    writer.write(table(0, 17_000))
    writer.path.mkdir()
    assert writer.close(TALLY) == partial_path(writer.path)
    assert isinstance(writer.trouble, IsADirectoryError)
    writer.path.rmdir()
    check_last_step(writer)


def check_last_step(writer: Writer) -> None:
    assert os.listdir(writer.path.parent) == ["a.parquet.partial"]
    trace = read(writer.path)
    assert trace.samples.num_rows == 17_000
    assert trace.tally.counts == TALLY.counts


def test_a_missing_file_is_distinguished_from_a_bad_one(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        read(tmp_path / "missing")
    assert caught.value.slug == "no-such-file"
    assert str(tmp_path) in expect_bad(tmp_path)


def expect_bad(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        read(path)
    assert caught.value.slug == "bad-trace"
    return caught.value.message


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"x" * 100, b"\xff\xff\xff\xff", b"\x7fELF" + b"\0" * 99])
def test_files_of_other_formats_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    assert str(path) in expect_bad(path)


def test_parquet_files_of_other_programs_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x")
    expect_bad(tmp_path / "x")


def metadata(about: bytes, tally: bytes) -> dict[bytes, bytes]:
    return {ABOUT_KEY: pack(about.decode()), TALLY_KEY: pack(tally.decode())}


GOOD = (ABOUT.to_json().encode(), TALLY.to_json().encode())


@pytest.mark.parametrize(
    ("about", "tally"),
    [
        (b"[]", GOOD[1]),
        (b"{}", GOOD[1]),
        (GOOD[0].replace(b'"version": 1', b'"version": 2'), GOOD[1]),
        (GOOD[0].replace(b'"start": 5', b'"start": "5"'), GOOD[1]),
        (GOOD[0].replace(b'"ticks_per_ns": 2.9', b'"ticks_per_ns": 0.0'), GOOD[1]),
        (GOOD[0].replace(b'"iid": 1', b'"iid": null'), GOOD[1]),
        (GOOD[0].replace(b'"prog", "-x"', b'"prog", 7'), GOOD[1]),
        (GOOD[0], b"nonsense"),
        (GOOD[0], b"[" * 100_000),
        (GOOD[0], GOOD[1].replace(b'"g:entry": 3', b'"g:entry": "3"')),
        (GOOD[0], GOOD[1].replace(b'"drops": 1', b'"drops": {}')),
    ],
)
def test_malformed_descriptions_are_refused(tmp_path: Path, about: bytes, tally: bytes) -> None:
    assert (about, tally) != GOOD
    pq.write_table(table(0, 3).replace_schema_metadata(metadata(about, tally)), tmp_path / "x")
    expect_bad(tmp_path / "x")


@pytest.mark.parametrize("packed", [b"", b"!", b"null", pack("{}")[:-8], pack(" " * 2000)])
def test_descriptions_that_are_too_large_are_refused(packed: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(about, "_LARGEST", 1000)
    with pytest.raises(StoreError):
        unpack(packed)


def test_a_hundred_thousand_probes_fit(tmp_path: Path) -> None:
    names = [f"lib.so:some_function_{n}:@{n % 50}:pre" for n in range(100_000)]
    probes = tuple(ProbeRow(0, name, name, "/usr/lib/lib.so", "count", n) for n, name in enumerate(names))
    tally = Tally(dict.fromkeys(names, 5))
    writer = Writer(tmp_path / "a.parquet", SCHEMA, replace(ABOUT, probes=probes))
    trace = read(writer.close(tally))
    assert trace.about.probes == probes
    assert trace.tally == tally
    assert trace.path.stat().st_size < 10_000_000


def test_files_with_other_columns_are_refused(tmp_path: Path) -> None:
    good = table(0, 3)
    for bad in (
        good.drop_columns(["sp"]),
        good.append_column("more", [[1, 2, 3]]),
        good.rename_columns(["x", *good.column_names[1:]]),
    ):
        pq.write_table(bad.replace_schema_metadata(metadata(*GOOD)), tmp_path / "x")
        assert "columns" in expect_bad(tmp_path / "x")


def test_a_directory_is_refused_as_one(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        read(tmp_path)
    assert (caught.value.slug, "a directory" in caught.value.message) == ("bad-trace", True)


@pytest.mark.parametrize("kind", ["parquet", "partial"])
def test_damaged_bytes_are_refused_or_harmless(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.parquet"
    write(path, table(0, 300))
    if kind == "partial":
        path.unlink()
        Writer(path, SCHEMA, ABOUT).write(table(0, 300))
        path = partial_path(path)
    whole = path.read_bytes()
    random = np.random.default_rng(5)
    for _ in range(150):
        damaged = bytearray(whole)
        for at in random.integers(4, len(whole), 3):
            damaged[at] = random.integers(0, 256)
        path.write_bytes(damaged)
        try:
            assert isinstance(read(path).calls.table, pa.Table)
        except StoreError as error:
            assert error.slug == "bad-trace"


def test_calls_of_a_trace_are_paired_from_its_samples(tmp_path: Path) -> None:
    trace = read(write(tmp_path / "a.parquet", table(0, 10)))
    assert isinstance(trace, Trace)
    assert (trace.calls.table.num_rows, trace.calls.abandoned, trace.calls.open) == (0, 9, 1)
