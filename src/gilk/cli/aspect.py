# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk aspect``: what a file of aspects means, asked without a process, and what is woven on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from gilk.api import aspects
from gilk.cli.aspect_explain import explain
from gilk.cli.weavings import COMMANDS
from gilk.render import aspect as render


@click.group()
def aspect() -> None:
    """Aspects: when something is to happen in programs and the kernel, and what."""


@aspect.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(file: Path, as_json: bool) -> int:
    """Say what is wrong with a file of aspects. Exit 1 if anything is; warnings alone are nothing wrong."""
    found = aspects.check_aspects(file)
    if as_json:
        click.echo(render.as_json(found.source, found.check))
    else:
        for line in render.complaints(found.source, found.check):
            click.echo(line, err=True)
        if found.check.file is not None:
            click.echo(render.summary(found.source, found.check))
    return 1 if found.check.errors else 0


aspect.add_command(explain)
for each in COMMANDS:
    aspect.add_command(each)
