# SPDX-License-Identifier: LGPL-2.1-or-later
"""Traces as lines of text: folded stacks, which flame graph programs read, and comma-separated values."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.csv

from gilk.render.text import cell
from gilk.trace.paths import label, of_flow
from gilk.trace.reading import Trace

_CHUNK = 100_000  # in rows


def folded(trace: Trace) -> Iterator[str]:
    """Lines `thread;function;function NANOSECONDS`, with the time spent in the last function itself; functions of the
    kernel end with `_[k]`. A semicolon in a name becomes a colon.
    """
    flow = trace.flow
    threads: dict[str, list[range]] = {}
    for rows in flow.tracks:
        first = flow.table.slice(rows.start, 1).to_pylist()[0]
        threads.setdefault(_frame(first["thread"] or str(first["tid"])), []).append(rows)
    for name, tracks in threads.items():
        times: dict[str, int] = {}
        for rows in tracks:
            paths = of_flow(flow.only_rows(rows))
            lines: list[str] = []
            for parent, symbol, own in zip(
                paths.parent.tolist(), paths.symbol.tolist(), paths.own.tolist(), strict=True
            ):
                lines.append(f"{lines[parent] if parent >= 0 else name};{_frame(label(paths.symbols[symbol]))}")
                times[lines[-1]] = times.get(lines[-1], 0) + own
        for line, own in times.items():
            if own:
                yield f"{line} {own}\n"


def csv(trace: Trace) -> Iterator[bytes]:
    """A line with the names of the columns, then a line for each call; `parent` refers to the column `row`."""
    table = trace.flow.table
    names = [name for name in table.column_names if pa.types.is_dictionary(table.schema.field(name).type)]
    for first in range(0, max(table.num_rows, 1), _CHUNK):
        part = table.slice(first, _CHUNK)
        for name in names:
            at = part.column_names.index(name)
            part = part.set_column(at, name, part[name].cast(pa.string()))
        part = part.add_column(0, "row", pa.array(np.arange(first, first + part.num_rows)))
        with io.BytesIO() as made:
            options = pa.csv.WriteOptions(include_header=first == 0)
            pa.csv.write_csv(part, made, options)
            yield made.getvalue()


def _frame(name: str) -> str:
    return cell(name).replace(";", ":") or "?"
