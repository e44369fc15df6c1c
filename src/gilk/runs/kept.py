# SPDX-License-Identifier: LGPL-2.1-or-later
"""Samples of a run: in memory for its report, up to a number of them, and in a file if it has one."""

from __future__ import annotations

from dataclasses import field

import pyarrow as pa

from gilk.errors import StoreError
from gilk.runs.sample_columns import padded
from gilk.trace.about import About, Tally
from gilk.trace.store import Writer
from gilk.values import dataclass

_ROWS = 20_000_000  # that are kept in memory


@dataclass
class Recorder:
    """``schema`` is of all samples there will be, and set before the first; ``writer`` is the file's."""

    schema: pa.Schema = None
    writer: Writer | None = None
    _tables: list[pa.Table] = field(default_factory=list)
    _rows: int = 0
    _left_out: int = 0

    def add(self, table: pa.Table) -> str:
        """Write a table; returns the reason why it did not get into the file, or ''. A full disk ends the writing, not
        the run."""
        if not table.num_rows:
            return ""
        table = padded(table, self.schema)
        if self._rows < _ROWS:
            self._tables.append(table)
            self._rows += table.num_rows
        else:
            self._left_out += table.num_rows
        try:
            if self.writer is not None:
                self.writer.write(table)
        except (StoreError, OSError) as error:
            return str(error)
        return ""

    def table(self) -> pa.Table | None:
        """The samples in memory, in order of time; None if there are none."""
        if not self._tables:
            return None
        table = pa.concat_tables(self._tables, promote_options="default")
        times = table["time"].to_numpy()
        return table if (times[1:] >= times[:-1]).all() else table.sort_by("time")

    @property
    def reservation(self) -> str:
        """The reservation about a report made from the samples in memory, if they are not all; else ''."""
        return f"latencies are of the first {_ROWS} records; -o FILE keeps all" if self._left_out else ""

    def close(self, tally: Tally, about: About | None = None) -> tuple[str, str]:
        """The file's name, and why it is incomplete, if it is. ``about``: more is known by now."""
        assert self.writer is not None
        if about is not None:
            self.writer.describe(about)
        name = str(self.writer.close(tally))
        return name, f"{name} is incomplete: {self.writer.trouble}" if self.writer.trouble is not None else ""
