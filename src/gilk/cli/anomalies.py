# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk anomalies FILE``: calls that are unlike others of their path."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gilk.api.function_lines import FunctionLines
from gilk.cli.duration import Duration
from gilk.cli.mangled import mangled_option
from gilk.cli.progress import in_lines
from gilk.render.findings import findings, of_trace, to_json, to_text
from gilk.render.names import with_names
from gilk.render.text import cell
from gilk.render.trace import load
from gilk.render.trace_names import with_readable_names


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--limit", type=click.IntRange(0), default=20, show_default=True, help="How many to print; 0: all.")
@click.option(
    "--min-time", "least", type=Duration("10us or 1ms"), default="1us", show_default=True, metavar="TIME",
    help="How much longer than the median a slow call takes, at least.",
)  # fmt: skip
@click.option("--thread", "threads", multiple=True, help="Only this thread, by name or number; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@mangled_option
def anomalies(file: Path, limit: int, least: int, threads: tuple[str, ...], as_json: bool) -> None:
    """Find calls in FILE that take much longer than others of their path, call others, or do not return."""
    with in_lines("reading the file", not as_json):
        trace = load(file, threads)
        trace = trace if as_json else with_readable_names(trace)
        calls = of_trace(trace)
        found = findings(calls, least)
        lines = FunctionLines(trace.about)
        text = "" if as_json else to_text(calls, found, limit, lines)
        told = to_json(calls, found, limit, lines) if as_json else {}
    click.echo(json.dumps(with_names(told)) if as_json else text, nl=as_json)
    if not as_json:
        click.echo("".join(f"note: {cell(note)}\n" for note in lines.notes), nl=False)
