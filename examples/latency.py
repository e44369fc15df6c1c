# SPDX-License-Identifier: LGPL-2.1-or-later
"""How long do the calls of a function take? Entry and return are recorded, and paired into calls.

    python latency.py 'libc.so.6:malloc' COMMAND [ARGUMENT ...]

Samples and calls are Arrow tables: pandas, polars and DuckDB take them as they are.
"""

from __future__ import annotations

import sys
import time

import pyarrow as pa
import pyarrow.compute as pc

import gilk


def main(function: str, command: list[str]) -> int:
    tables = []
    with gilk.launch(command) as target:
        session = target.session()
        session.insert(f"{function}:entry", gilk.time)  # gilk adds the returns
        target.resume()  # until here the program has not run an instruction of its own
        while (status := target.wait()) is None:
            time.sleep(0.02)
            tables.append(session.poll())
        tables.append(session.close())
    calls = gilk.calls(pa.concat_tables(tables).sort_by("time"))
    durations = calls.table["duration"]
    print(f"{calls.table.num_rows} calls of {function}, {session.drain.drops()} records dropped")
    if calls.table.num_rows:
        median, most = pc.quantile(durations, [0.5, 1.0]).to_pylist()
        print(f"median {median:.0f} ns, longest {most:.0f} ns")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
