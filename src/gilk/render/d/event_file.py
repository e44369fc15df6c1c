# SPDX-License-Identifier: LGPL-2.1-or-later
"""A file of events (as_table.py), which can be read at any moment (trace/table_file.py)."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

import pyarrow as pa

from gilk.errors import StoreError
from gilk.render.d.as_table import SCHEMA, VERSION, Rows
from gilk.trace import table_file
from gilk.trace.d.events import Event
from gilk.trace.table_file import EVENTS_KEY, Stored, TableFile

_MOST = 8192  # the most rows that wait to be written
_LONGEST = 1.0  # the most seconds that they wait, as long as more come


class EventFile:
    """Writes a file of events. An earlier FILE stays until `close`."""

    def __init__(self, path: Path, program: str, printsize: int = 1024, strsize: int = 256) -> None:
        """``program`` is gilk's version; ``printsize`` and ``strsize`` are D's options. Raises StoreError, OSError."""
        self._notes = {EVENTS_KEY: json.dumps({"version": VERSION, "gilk": program}).encode()}
        self._rows = Rows(printsize, strsize)
        self._file = TableFile(path, SCHEMA, self._notes, "events", "gilk query {} 'SELECT * FROM events'")
        self._due = time.monotonic() + _LONGEST

    def add(self, event: Event) -> None:
        """Add an event. Raises StoreError('disk-full') the first time there is no room; after that events are only
        counted.
        """
        self._rows.add(event)
        if len(self._rows) >= _MOST or (len(self._rows) and time.monotonic() >= self._due):
            self._flush()

    def close(self) -> Path:
        """Make FILE and return its path; or, if that fails, leave FILE.partial and return its path.

        ``unwritten`` is then the number of rows that found no room. Nothing is raised.
        """
        with contextlib.suppress(StoreError, OSError):  # the file has noted the error, and keeps its rows
            self._flush()
        return self._file.close(self._notes)

    def abandon(self) -> None:
        """Leave FILE.partial as it is."""
        self._file.abandon()

    @property
    def unwritten(self) -> int:
        return self._file.unwritten

    def _flush(self) -> None:
        self._due = time.monotonic() + _LONGEST
        self._file.write(self._rows.take())


def is_one(path: Path) -> bool:
    """Whether a file, or the part that was left of it, has the notes of a file of events."""
    return EVENTS_KEY in table_file.first_notes(path)


def read(path: Path) -> dict[str, pa.Table]:
    """The tables of the file by their names: `events`, all rows, and `aggregations`, those that belong to one.

    Raises StoreError: 'no-such-file', 'no-permission', and 'bad-trace' for anything that `EventFile` did not write.
    """
    events = table_file.read(path, "a file of events", "gilk dtrace -o FILE.parquet", _accept, _table)
    kinds = events["type"].cast(pa.string())
    return {"events": events, "aggregations": events.filter(pa.compute.equal(kinds, "aggregation"))}


def _accept(found: pa.Schema) -> None:
    try:
        version = json.loads((found.metadata or {}).get(EVENTS_KEY, b"{}")).get("version")
    except (ValueError, AttributeError, RecursionError) as error:
        raise StoreError("bad-trace", "its description is not JSON") from error
    if version != VERSION:
        raise StoreError(
            "bad-trace", f"version {version!r} of the format is not known here", "use the gilk that wrote it"
        )
    if not found.equals(SCHEMA):
        raise StoreError("bad-trace", "its columns are not those of events")


def _table(stored: Stored) -> pa.Table:
    return stored.table
