# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk show FILE``: what is in a file of samples."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gilk.render.trace import load, to_json, to_text


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--limit", type=click.IntRange(0), default=10, show_default=True, help="How many samples to print.")
@click.option("--thread", "threads", multiple=True, help="Only samples of this thread, by name or number; repeatable.")
def show(file: Path, as_json: bool, limit: int, threads: tuple[str, ...]) -> None:
    """Print what is in FILE: counts, histograms of durations, what was lost, the first samples."""
    trace = load(file, threads)
    click.echo(json.dumps(to_json(trace, limit)) if as_json else to_text(trace, limit), nl=as_json)
