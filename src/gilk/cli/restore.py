# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk restore``: put a process right after gilk itself was killed."""

from __future__ import annotations

import json

import click

from gilk import api
from gilk.render.text import cell


@click.command()
@click.argument("pid", type=int)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def restore(pid: int, as_json: bool) -> None:
    """Put the code of process PID back to what its files say.

    gilk undoes everything itself, also when it is killed; this is for the case that its keeper process was killed too.
    """
    result = api.restore(pid)
    if as_json:
        click.echo(json.dumps({"pid": pid, "restored": result.bytes}))
        return
    for name, size in result.bytes.items():
        click.echo(f"{cell(name)}: {size} bytes put back")
    click.echo(f"process {pid} is restored")
