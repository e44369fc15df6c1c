# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes a table as it grows, and ends with a Parquet file.

A Parquet file is readable only once its footer is written, at the end. So until then rows go to FILE.partial, an Arrow
IPC stream, which is good up to its last whole batch whenever its writer stops: killed, or out of disk. Only if all is
well at the end does FILE appear, complete and under its name at once, and FILE.partial is removed. `read` reads both.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from gilk.errors import StoreError
from gilk.outputs import fresh, replaceable, replacing
from gilk.values import dataclass

ROW_GROUP = 1 << 20  # in rows
EVENTS_KEY = b"gilk-dtrace"  # the key of the notes in a file of events
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PARQUET = b"PAR1"
_STREAM = b"\xff\xff\xff\xff"  # the continuation marker that begins every Arrow IPC message
Notes = Mapping[bytes, bytes]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Stored:
    """The contents of a file.

    ``first``: the notes of its schema; ``last``: those of the last batch that has some, or of the schema of a Parquet
    file. ``partial``: its writer did not finish it.
    """

    path: Path
    first: Notes
    last: Notes
    table: pa.Table
    partial: bool


def partial_path(path: Path) -> Path:
    """The path at which rows are written until the end; the file stays there if the run does not end well."""
    return path.with_name(path.name + ".partial")


class TableFile:
    """A file that is being written. An earlier FILE stays until `close`; an earlier FILE.partial is removed at once.

    ``rows`` is the number of rows that were written, ``unwritten`` of those that found no room. ``trouble`` is the
    error that kept rows from being written, or None.
    """

    def __init__(self, path: Path, schema: pa.Schema, notes: Notes, what: str, shown_by: str, **parquet: Any) -> None:
        """``notes``: the schema's metadata in FILE.partial. ``what`` is the word for the rows in messages, ``shown_by``
        the command that reads them, with ``{}`` for the file. ``parquet``: options of pyarrow.parquet.ParquetWriter.

        Raises StoreError('disk-full', 'cannot-write'), and OSError if the file cannot be made.
        """
        if not replaceable(path):
            raise StoreError("cannot-write", f"{path} exists and is not a regular file", "choose another -o")
        self.path = path
        self.rows = 0
        self.unwritten = 0
        self.trouble: OSError | None = None
        self._what, self._shown_by = what, shown_by
        self._parquet = parquet
        self._full = False
        self._good = 0  # in bytes: the end of the last whole batch
        self._sink = _Sink(partial_path(path))
        self.schema = schema.with_metadata(dict(notes))
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        try:
            self._stream = pa.ipc.new_stream(self._sink, self.schema, options=options)
        except OSError as error:
            raise self._failure(error) from error
        self._append(self._no_rows(), None)  # the schema is written only with the first batch

    def write(self, table: pa.Table) -> None:
        """Add rows. Raises StoreError('disk-full') the first time there is no room; after that rows are only
        counted.
        """
        for batch in table.replace_schema_metadata(self.schema.metadata).to_batches():
            self._append(batch, None)

    def note(self, notes: Notes) -> None:
        """Add notes for readers of FILE.partial: the metadata of a batch without rows. Raises as write()."""
        self._append(self._no_rows(), notes)

    def close(self, notes: Notes) -> Path:
        """Make FILE, with ``notes`` as metadata of its schema, and return its path; or, if rows could not be written or
        the place is gone, leave FILE.partial and return its path.

        `trouble` then says why. Nothing is raised: written rows stay readable.
        """
        try:
            if self.trouble is None:
                self._stream.close()
                return self._finish(notes)
        except OSError as error:
            self.trouble = error
        finally:
            self._sink.close()
        return partial_path(self.path)

    def abandon(self) -> None:
        """Leave FILE.partial as it is."""
        self._sink.close()

    def remove(self) -> None:
        """Leave no FILE.partial; an earlier FILE stays."""
        self._sink.remove()
        self._sink.close()

    def _no_rows(self) -> Any:
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in self.schema], schema=self.schema)

    def _append(self, batch: Any, notes: Notes | None) -> None:
        if self._full:
            self.unwritten += batch.num_rows
            return
        try:
            self._stream.write_batch(batch, custom_metadata=notes)
        except OSError as error:
            self.unwritten += batch.num_rows
            raise self._failure(error) from error
        self.rows += batch.num_rows
        self._good = self._sink.position

    def _failure(self, error: OSError) -> Exception:
        """Cut off a batch that was written in part; returns the error to raise, which says what was kept."""
        self.trouble = error
        if error.errno not in _FULL:
            return error
        self._full = True
        os.ftruncate(self._sink.fileno(), self._good)
        left = partial_path(self.path)
        kept = f"no more room for {self._what}: {left} keeps the first {self.rows}"
        return StoreError("disk-full", kept, f"{self._shown_by.format(left)} shows them")

    def _finish(self, notes: Notes) -> Path:
        described = self.schema.with_metadata(dict(notes))
        with replacing(self.path) as new:
            _to_parquet(_again(self._sink.fileno()), _again(new.fileno()), described, self._parquet)
        self._sink.remove()
        return self.path


class _Sink(io.RawIOBase):
    """A file that knows its position, and in which a write is complete or raises."""

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
        """Remove the file's name if it still has it: another session may have begun to write a file of that name."""
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.lstat(self._path), os.fstat(self._fd)):
                os.unlink(self._path)

    def close(self) -> None:
        if not self.closed:
            os.close(self._fd)
        super().close()


def _again(fd: int) -> str:
    """A path of the file that is open as ``fd``, even if another file has its name now."""
    return f"/proc/self/fd/{fd}"


def _to_parquet(partial: str, new: str, schema: pa.Schema, options: dict[str, Any]) -> None:
    import pyarrow.parquet as pq  # imported here: programs that write and read no such file need not wait for it

    with (
        pa.OSFile(partial) as source,
        pa.ipc.open_stream(source) as stream,
        pa.OSFile(new, "wb") as sink,
        pq.ParquetWriter(sink, schema, compression="zstd", **options) as writer,
    ):
        for table in _in_groups(stream):
            writer.write_table(table.replace_schema_metadata(schema.metadata), row_group_size=ROW_GROUP)


def _in_groups(stream: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Tables of about ROW_GROUP rows. The batches of the stream are smaller, those of a quiet target much smaller."""
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


@dataclass(frozen=True, eq=False)
class Parts:
    """A finished file with ``rows`` rows, some columns of which are read a part at a time."""

    notes: Notes
    rows: int
    tables: Iterator[pa.Table]


@contextlib.contextmanager
def parts(
    path: Path, rows: int, columns: Sequence[str], accept: Callable[[pa.Schema], None], what: str, maker: str
) -> Iterator[Parts | None]:
    """The file, to be read ``rows`` rows of some columns at a time; None if its writer did not finish it. All else is
    as for `read`, and errors in the body of the ``with`` are reported as those of the file.
    """
    import pyarrow.parquet as pq  # here, as above

    with _telling(path, what, maker):
        path = _present(path)
        if _start(path) != _PARQUET:
            yield None
            return
        with pq.ParquetFile(path) as file:
            accept(file.schema_arrow)
            batches = file.iter_batches(batch_size=rows, columns=list(columns))
            tables = (_sound(pa.Table.from_batches([batch])) for batch in batches)
            yield Parts(file.schema_arrow.metadata or {}, file.metadata.num_rows, tables)


def read(path: Path, what: str, maker: str, accept: Callable[[pa.Schema], None], make: Callable[[Stored], T]) -> T:
    """The result of ``make`` for the file at `path`, or for the part that a writer which did not finish it left beside
    it.

    The table is validated, but nothing else of the file is trusted: ``accept`` checks the schema before any row is
    read. Both raise StoreError. Messages call the file ``what``, and name ``maker``, the command that makes one.

    Raises StoreError: 'no-such-file', 'no-permission', and 'bad-trace' for anything else.
    """
    with _telling(path, what, maker):
        path = _present(path)
        start = _start(path)
        if start == _PARQUET:
            return make(_read_parquet(path, accept))
        if start == _STREAM:
            return make(_read_partial(path, accept))
    raise StoreError("bad-trace", f"{path}: not {what}", f"{maker} makes one")


@contextlib.contextmanager
def _telling(path: Path, what: str, maker: str) -> Iterator[None]:
    """Turn all errors with a file into StoreError."""
    try:
        yield
    except FileNotFoundError as error:
        raise StoreError("no-such-file", f"no file {path}") from error
    except PermissionError as error:
        raise StoreError("no-permission", f"{path} may not be read") from error
    except IsADirectoryError as error:
        raise StoreError("bad-trace", f"{path}: a directory, not {what}", f"{maker} makes one") from error
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
        raise StoreError("bad-trace", f"{path}: damaged, or not {what}: {error}") from error
    except StoreError as error:
        raise StoreError("bad-trace", f"{path}: {error.message}", error.hint) from error


def first_notes(path: Path) -> Notes:
    """The notes in the schema of a file, or of its unfinished part; {} if it cannot be read."""
    import pyarrow.parquet as pq  # here, as above

    try:
        path = _present(path)
        if _start(path) == _PARQUET:
            return pq.read_schema(path).metadata or {}
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
            return stream.schema.metadata or {}
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError):
        return {}


def _present(path: Path) -> Path:
    """The path, or that of FILE.partial if there is no FILE."""
    return partial_path(path) if not path.exists() and partial_path(path).exists() else path


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(_PARQUET))


def _read_parquet(path: Path, accept: Callable[[pa.Schema], None]) -> Stored:
    import pyarrow.parquet as pq  # here, as above

    with pq.ParquetFile(path) as file:
        accept(file.schema_arrow)
        notes = file.schema_arrow.metadata or {}
        return Stored(path, notes, notes, _sound(file.read()), partial=False)


def _read_partial(path: Path, accept: Callable[[pa.Schema], None]) -> Stored:
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
        accept(stream.schema)
        batches: list[pa.RecordBatch] = []
        last: Notes = {}
        for batch, notes in _whole_batches(stream):
            batches.append(batch)
            last = notes or last
        table = pa.Table.from_batches(batches, stream.schema)
        return Stored(path, stream.schema.metadata or {}, last, _sound(table), partial=True)


def _whole_batches(stream: pa.RecordBatchReader) -> Iterator[tuple[pa.RecordBatch, dict[bytes, bytes]]]:
    """The batches up to the end, or to where the writer was stopped, each with its notes."""
    while True:
        try:
            batch, notes = stream.read_next_batch_with_custom_metadata()
            batch.validate(full=True)
        except (StopIteration, pa.ArrowException, OSError):
            return
        yield batch, dict(notes or {})


def _sound(table: pa.Table) -> pa.Table:
    table.validate(full=True)
    return table.replace_schema_metadata(None).unify_dictionaries()
