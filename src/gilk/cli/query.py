# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk query FILE SQL``: ask a file of samples, or of D's events, a question in SQL."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gilk.cli.progress import in_lines
from gilk.render.query import answer, answer_text, tables


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("sql")
@click.option("--json", "as_json", is_flag=True, help='Print {"columns": [...], "rows": [[...], ...]}.')
def query(file: Path, sql: str, as_json: bool) -> None:
    """Answer SQL from the tables samples, calls, counts and probes of FILE.

    A FILE that `gilk dtrace -o FILE.parquet` made has the tables events and aggregations instead.
    """
    with in_lines("reading the file", not as_json):
        found = answer(tables(file), sql)
        text = json.dumps(found) if as_json else answer_text(found)
    click.echo(text, nl=as_json)
