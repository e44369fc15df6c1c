# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk diff A B``: two traces of the same work."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gilk.api.function_lines import FunctionLines
from gilk.cli.mangled import mangled_option
from gilk.cli.progress import in_lines
from gilk.render.comparison import LinesOfBoth, differences, slower, to_json, to_text
from gilk.render.names import with_names
from gilk.render.text import cell


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--limit", type=click.IntRange(0), default=10, show_default=True, help="How many of each sort; 0: all.")
@click.option(
    "--slower",
    "factor",
    type=click.FloatRange(0),
    default=0.0,
    metavar="FACTOR",
    help="Times differ, too: calls that take more than FACTOR times as long.",
)
@click.option("--thread", "threads", multiple=True, help="Only this thread, by name or number; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@mangled_option
def diff(a: Path, b: Path, limit: int, factor: float, threads: tuple[str, ...], as_json: bool) -> int:
    """Say what differs between the calls in A and in B. The exit status is 0 if nothing does, 1 if something does."""
    with in_lines("comparing the traces", not as_json):
        found, abouts = differences(a, b, threads, readable=not as_json)
    sides = [FunctionLines(about) for about in abouts]
    lines = LinesOfBoth(*sides)
    if as_json:
        click.echo(json.dumps(with_names(to_json(found, limit, factor, lines))))
    else:
        text = to_text(found, limit, factor, lines)
        notes = dict.fromkeys(note for side in sides for note in side.notes)
        click.echo(text + "".join(f"note: {cell(note)}\n" for note in notes), nl=False)
    return 0 if found.same and not slower(found, factor) else 1
