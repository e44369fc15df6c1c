# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk export FILE --to FORMAT``: a trace for other programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from gilk.cli.mangled import mangled_option
from gilk.cli.progress import in_lines
from gilk.render import output
from gilk.render.export import chrome, perfetto, plain
from gilk.render.trace import load
from gilk.render.trace_names import with_readable_names

_FORMATS: dict[str, tuple[Callable[[Any], Iterable[bytes | str]], str]] = {
    "perfetto": (perfetto.parts, ".pftrace"),
    "chrome": (chrome.parts, ".trace.json"),
    "folded": (plain.folded, ".folded"),
    "csv": (plain.csv, ".csv"),
}


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--to", type=click.Choice([*_FORMATS]), required=True, help="The format to write.")
@click.option(
    "-o", "--output", "target", type=click.Path(path_type=Path), help="The file to write; - for standard output."
)
@click.option("--thread", "threads", multiple=True, help="Only calls of this thread, by name or number; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print what was made as one JSON object.")
@mangled_option
def export(file: Path, to: str, target: Path | None, threads: tuple[str, ...], as_json: bool) -> None:
    """Write the calls in FILE for Perfetto, chrome://tracing, flame graph programs, or as CSV."""
    make, ending = _FORMATS[to]
    with in_lines("reading the file", not as_json):
        trace = load(file, threads)
        trace = trace if to == "csv" else with_readable_names(trace)
    if str(target) == "-":
        for part in make(trace):
            sys.stdout.buffer.write(part if isinstance(part, bytes) else part.encode("utf-8", "replace"))
        return
    made = target or file.with_name(file.stem + ending)
    with in_lines("writing the file", not as_json):
        size = output.write(made, make(trace))
    found = {"file": str(made), "format": to, "calls": trace.flow.table.num_rows, "bytes": size}
    click.echo(json.dumps(found) if as_json else str(made))
