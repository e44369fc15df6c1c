# SPDX-License-Identifier: LGPL-2.1-or-later
"""Write samples as they come, and end with a Parquet file.

A Parquet file is readable only once its footer is written, at the end. So while
a session runs, samples go to FILE.partial, an Arrow IPC stream, which is good up
to its last whole batch whenever its writer stops: killed, or out of disk. Only
when all is well at the end does FILE appear, complete and under its name at
once, and FILE.partial goes. `gilk.trace.reading` reads both.

`About` is in the schema's metadata, `Tally` in that of the last batch (partial)
or of the schema (Parquet); both packed JSON.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gilk.errors import StoreError
from gilk.outputs import fresh, replaceable, replacing
from gilk.trace.about import About, Tally, pack

ABOUT_KEY = b"gilk"
TALLY_KEY = b"gilk-tally"
ROW_GROUP = 1 << 20  # rows

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DICTIONARY = ["pid", "tid", "thread", "point", "function", "kind", "sp"]


def partial_path(path: Path) -> Path:
    """Where samples are while a session runs, and stay if it does not end well."""
    return path.with_name(path.name + ".partial")


class Writer:
    """Writes one file of samples. An earlier FILE stays until `close`; an earlier FILE.partial goes at once."""

    def __init__(self, path: Path, schema: pa.Schema, about: About) -> None:
        """Raises StoreError('disk-full', 'cannot-write'), and OSError where the file cannot be made."""
        if not replaceable(path):
            raise StoreError("cannot-write", f"{path} exists and is not a regular file", "choose another -o")
        self.path = path
        self.records = 0
        self.unwritten = 0
        self.trouble: OSError | None = None  # what kept samples from being written
        self._about = pack(about.to_json())
        self._full = False
        self._good = 0  # bytes: the end of the last whole batch
        self._sink = _Sink(partial_path(path))
        described = schema.with_metadata({ABOUT_KEY: self._about})
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        try:
            self._stream = pa.ipc.new_stream(self._sink, described, options=options)
        except OSError as error:
            raise self._failure(error) from error
        self._schema = described
        self._good = self._sink.position

    def describe(self, about: About) -> None:
        """More is known by now: what FILE is to say of itself, in place of what its beginning says."""
        self._about = pack(about.to_json())

    def write(self, table: pa.Table) -> None:
        """Add samples. StoreError('disk-full') the first time there is no room; after that they are only counted."""
        for batch in table.replace_schema_metadata(self._schema.metadata).to_batches():
            self._append(batch, None)

    def checkpoint(self, tally: Tally) -> None:
        """Note how things stand, for whoever reads the file after this process was killed."""
        self._append(_no_rows(self._schema), tally)

    def close(self, tally: Tally) -> Path:
        """Make FILE and return its path; or, if there is no room or no such place, leave and return the partial file.

        `trouble` then says why. Nothing is raised: what there is stays readable.
        """
        try:
            self.checkpoint(tally)
            if not self._full:
                self._stream.close()
                return self._finish(tally)
        except OSError as error:
            self.trouble = error
        except StoreError:
            pass  # _failure has kept it
        finally:
            self._sink.close()
        return partial_path(self.path)

    def abandon(self) -> None:
        """Leave the partial file as it is."""
        self._sink.close()

    def _append(self, batch: Any, tally: Tally | None) -> None:
        if self._full:
            self.unwritten += batch.num_rows
            return
        note = {TALLY_KEY: pack(tally.to_json())} if tally else None
        try:
            self._stream.write_batch(batch, custom_metadata=note)
        except OSError as error:
            self.unwritten += batch.num_rows
            raise self._failure(error) from error
        self.records += batch.num_rows
        self._good = self._sink.position

    def _failure(self, error: OSError) -> Exception:
        """Cut off a batch that was written in part, and say what there is."""
        if error.errno not in _FULL:
            return error
        self._full = True
        self.trouble = error
        os.ftruncate(self._sink.fileno(), self._good)
        left = partial_path(self.path)
        hint = f"gilk show {left} shows them"
        return StoreError("disk-full", f"no more room for samples: {left} keeps the first {self.records}", hint)

    def _finish(self, tally: Tally) -> Path:
        metadata = {ABOUT_KEY: self._about, TALLY_KEY: pack(tally.to_json())}
        with replacing(self.path) as new:
            _to_parquet(_again(self._sink.fileno()), _again(new.fileno()), self._schema.with_metadata(metadata))
        self._sink.remove()
        return self.path


class _Sink(io.RawIOBase):
    """A file that knows its position, and in which a write is whole or raises."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._fd = fresh(path)
        self.position = 0

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            written = os.write(self._fd, view[done:])
            if not written:
                raise OSError(errno.EIO, "nothing more is written")
            done += written
        self.position += done
        return done

    def remove(self) -> None:
        """Take its name away, if it has it still: another session may have begun to write one of that name."""
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.lstat(self._path), os.fstat(self._fd)):
                os.unlink(self._path)

    def close(self) -> None:
        if not self.closed:
            os.close(self._fd)
        super().close()


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _again(fd: int) -> str:
    """The file that is open there, whoever has its name by now."""
    return f"/proc/self/fd/{fd}"


def _to_parquet(partial: str, new: str, schema: pa.Schema) -> None:
    with pa.OSFile(partial) as source, pa.ipc.open_stream(source) as stream, pa.OSFile(new, "wb") as sink:
        options: dict[str, Any] = {"use_dictionary": _DICTIONARY, "column_encoding": {"time": "DELTA_BINARY_PACKED"}}
        with pq.ParquetWriter(sink, schema, compression="zstd", **options) as writer:
            for table in _in_groups(stream):
                writer.write_table(table.replace_schema_metadata(schema.metadata), row_group_size=ROW_GROUP)


def _in_groups(stream: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Tables of about ROW_GROUP rows: the batches of a stream are as small as a poll of a quiet target."""
    batches: list[pa.RecordBatch] = []
    rows = 0
    for batch in stream:
        batches.append(batch)
        rows += batch.num_rows
        if rows >= ROW_GROUP:
            yield pa.Table.from_batches(batches).unify_dictionaries()
            batches, rows = [], 0
    if batches:
        yield pa.Table.from_batches(batches).unify_dictionaries()
