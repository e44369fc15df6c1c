# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk aspect explain FILE``: automata, keys, state and cost; with events, what the model does at each."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gilk.api import aspects
from gilk.errors import UsageError
from gilk.render import aspect, automata


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--events",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Have the model run these events, and say what it does.",
)
@click.option("--emit-c", is_flag=True, help="Print the C that is made of the file instead.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explain(file: Path, events: Path | None, emit_c: bool, as_json: bool) -> int:
    """Show the automata of FILE: elements, keys, the state of an instance, what ends it, and about what a hit costs."""
    if emit_c and (events or as_json):
        raise UsageError("usage", "--emit-c prints C, and nothing else", "leave out --events and --json")
    found = aspects.explain_aspects(file, events)
    source, checked = found.reading.source, found.reading.check
    if as_json:
        about = json.loads(aspect.as_json(source, checked)) | {"automata": automata.automata_json(found.automata)}
        click.echo(json.dumps(about | (automata.steps_json(found.steps, found.counts) if events else {})))
        return 1 if checked.errors else 0
    for line in aspect.complaints(source, checked):
        click.echo(line, err=True)
    if emit_c:
        for one in aspects.emitted(file):
            click.echo(f"/* {one.what} */\n{one.text}")
        return 1 if checked.errors else 0
    click.echo(automata.automata_text(found.automata), nl=False)
    if events and found.automata:
        click.echo("\n" + automata.steps_text(found.steps, found.counts), nl=False)
    return 1 if checked.errors else 0
