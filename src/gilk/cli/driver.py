# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk driver``: the kernel module through which gilk changes the kernel that runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

_DIRECTORY = click.Path(path_type=Path)


@click.group()
def driver() -> None:
    """The kernel module through which gilk changes the kernel that runs."""


@driver.command()
@click.option(
    "--kernel", "release", default="", metavar="RELEASE", help="Build for this kernel instead of the one that runs."
)
@click.option(
    "--headers", metavar="DIR", type=_DIRECTORY, help="The kernel's headers, if they are not in their usual place."
)
def build(release: str, headers: Path | None) -> None:
    """Build it against a kernel's headers, unless that has been done, and print where it is."""
    from gilk.api import machines  # here: --help need not wait for it

    click.echo(str(machines.driver.build(release, headers)))


@driver.command()
@click.option("--module", metavar="FILE", type=_DIRECTORY, help="Load this file, which is built already.")
def load(module: Path | None) -> None:
    """Load it into the kernel that runs. Root only."""
    from gilk.api import machines  # here: --help need not wait for it

    click.echo("the driver is loaded" if machines.driver.load(module) else "the driver was loaded already")


@driver.command()
def unload() -> None:
    """Take it out of the kernel that runs. Root only."""
    from gilk.api import machines  # here: --help need not wait for it

    click.echo("the driver is unloaded" if machines.driver.unload() else "the driver was not loaded")


@driver.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status(as_json: bool) -> int:
    """Show the driver's state. Exit 1 when it is not loaded."""
    from gilk.api import machines  # here: --help need not wait for it

    report = machines.driver.status()
    if as_json:
        click.echo(json.dumps({"loaded": report.hello is not None, **asdict(report)}))
    elif report.hello is None or report.status is None:
        click.echo(f"kernel {report.release}: the driver is not loaded")
    else:
        now = report.status
        click.echo(f"kernel {report.release}: driver loaded, protocol {report.hello.protocol}")
        click.echo(f"clients   {now.clients - 1}")  # the command itself is one client
        click.echo(f"units     {now.units} ({now.orphans} of clients that are gone)")
        click.echo(f"arenas    {now.arena_bytes} bytes")
        click.echo(f"counters  {now.counters} ({now.fast_counters} near ones free)")
        click.echo(f"records   {now.ring_bytes} bytes of buffers")
        click.echo(f"traps     {now.traps} hits")
        click.echo(f"missed    {now.missed} runs of C instruments")
        click.echo(f"changes   {now.batches}")
    return 0 if report.hello else 1
