# SPDX-License-Identifier: LGPL-2.1-or-later
"""Recorder of a run's samples: in memory for its report, up to a limit, and in a file if it has one."""

from __future__ import annotations

from dataclasses import field

import pyarrow as pa

from gilk.errors import StoreError
from gilk.runs.sample_columns import padded
from gilk.trace.about import About, Tally
from gilk.trace.store import Writer
from gilk.values import dataclass

_ROWS = 20_000_000  # how many samples are kept in memory


@dataclass
class Recorder:
    """Keeps samples. ``schema``: of all samples that may come, set before the first; ``writer``: writes the file, if
    there is one; ``most``: how many samples are kept in memory."""

    schema: pa.Schema = None
    most: int = _ROWS
    writer: Writer | None = None
    _tables: list[pa.Table] = field(default_factory=list)
    _rows: int = 0
    _left_out: int = 0

    def add(self, table: pa.Table) -> str:
        """Keep a table; returns '' or, if it could not be written to the file, the reason. A full disk ends the
        writing, not the run."""
        if not table.num_rows:
            return ""
        table = padded(table, self.schema)
        if self._rows < self.most:
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
        """A remark if the report is made from only a part of the samples; else ''."""
        partly = self._left_out and self.most
        return f"latencies are of the first {self.most} records; -o FILE keeps all" if partly else ""

    def close(self, tally: Tally, about: About | None = None) -> tuple[str, str]:
        """Close the file; returns its name, and '' or why it is incomplete. ``about``: a newer description of the
        run."""
        assert self.writer is not None
        if about is not None:
            self.writer.describe(about)
        name = str(self.writer.close(tally))
        return name, f"{name} is incomplete: {self.writer.trouble}" if self.writer.trouble is not None else ""
