# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk restore``: repair the code of a process after gilk and its keeper were killed."""

from __future__ import annotations

import json

import click

from gilk.render.text import cell

_SHOWN = 20  # places changed by others that are listed one by one


@click.command()
@click.argument("pid", type=int)
@click.option(
    "--force",
    is_flag=True,
    help="Let other sessions in even if a thread or a waiting handler is still in gilk's memory.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def restore(pid: int, force: bool, as_json: bool) -> None:
    """Put back what gilk has written over the code of process PID.

    gilk undoes everything itself, also when it is killed; this is for the case that its keeper process was killed too.
    """
    from gilk.api import processes  # here: --help need not wait for it

    result = processes.restore(pid, force)
    if as_json:
        left = [{"image": s.image, "address": s.address, "bytes": len(s.original)} for s in result.left]
        click.echo(json.dumps({"pid": pid, "restored": result.bytes, "left": left, "waiting": result.waiting}))
        return
    for name, size in result.bytes.items():
        click.echo(f"{cell(name)}: {size} bytes put back")
    for stretch in result.left[:_SHOWN]:
        size, where = len(stretch.original), f"{stretch.address:#x}"
        click.echo(f"{cell(stretch.image)}: {size} bytes at {where} differ, not by gilk: left")
    if len(result.left) > _SHOWN:
        click.echo(f"and {len(result.left) - _SHOWN} more such places")
    click.echo(f"process {pid} is restored")
    if result.waiting and not force:
        click.echo("a thread or a handler that waits is still in gilk's memory, so other sessions are refused:")
        click.echo("run gilk restore again once it has gone on, or with --force if it never does")
