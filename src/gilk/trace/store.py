# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes samples into a file (table_file.py), with its description. `gilk.trace.reading` reads it, finished or not.

`About` is in the schema's metadata, `Tally` in that of the last batch (partial file) or of the schema (Parquet); both
are packed JSON.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pyarrow as pa

from gilk.errors import StoreError
from gilk.trace.about import About, Tally, pack
from gilk.trace.table_file import TableFile

ABOUT_KEY = b"gilk"
TALLY_KEY = b"gilk-tally"
_DICTIONARY = ["pid", "tid", "thread", "point", "function", "kind", "sp"]


class Writer:
    """Writes one file of samples."""

    def __init__(self, path: Path, schema: pa.Schema, about: About) -> None:
        """Raises StoreError('disk-full', 'cannot-write'), and OSError if the file cannot be made."""
        self.path = path
        self._about = pack(about.to_json())
        options = {"use_dictionary": _DICTIONARY, "column_encoding": {"time": "DELTA_BINARY_PACKED"}}
        self._file = TableFile(path, schema, {ABOUT_KEY: self._about}, "samples", "gilk show {}", **options)

    @property
    def records(self) -> int:
        """The number of samples that have been written."""
        return self._file.rows

    @property
    def unwritten(self) -> int:
        """The number of samples for which there was no room."""
        return self._file.unwritten

    @property
    def trouble(self) -> OSError | None:
        """The error that kept samples from being written; None if there was none."""
        return self._file.trouble

    def describe(self, about: About) -> None:
        """Replace the description of the session that FILE will have; its beginning keeps the first one."""
        self._about = pack(about.to_json())

    def write(self, table: pa.Table) -> None:
        """Add samples. Raises StoreError('disk-full') the first time there is no room; after that samples are only
        counted.
        """
        self._file.write(table)

    def checkpoint(self, tally: Tally) -> None:
        """Note the present tally, for readers of the file if this process is killed."""
        self._file.note({TALLY_KEY: pack(tally.to_json())})

    def close(self, tally: Tally) -> Path:
        """Make FILE and return its path; or, if there is no room or the place is gone, leave the partial file and
        return its path.

        `trouble` then says why. Nothing is raised: written samples stay readable.
        """
        with contextlib.suppress(StoreError, OSError):  # the file has noted the error
            self.checkpoint(tally)
        return self._file.close({ABOUT_KEY: self._about, TALLY_KEY: pack(tally.to_json())})

    def abandon(self) -> None:
        """Leave the partial file as it is."""
        self._file.abandon()

    def remove(self) -> None:
        """Leave no partial file; an earlier FILE stays."""
        self._file.remove()
