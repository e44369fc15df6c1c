# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk query FILE SQL``: ask a file of samples a question."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gilk.render.trace import answer, answer_text, load


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("sql")
@click.option("--json", "as_json", is_flag=True, help='Print {"columns": [...], "rows": [[...], ...]}.')
def query(file: Path, sql: str, as_json: bool) -> None:
    """Answer SQL from the tables samples, calls, counts and probes of FILE."""
    found = answer(load(file), sql)
    click.echo(json.dumps(found) if as_json else answer_text(found), nl=as_json)
