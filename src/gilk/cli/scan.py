# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk scan TARGET``: count functions, blocks and points of a program, and how each point can be spliced."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Final

import click

from gilk.activity import Activity
from gilk.api.scans import scan as survey
from gilk.api.scans import sources, without_code
from gilk.cli.mangled import mangled_option
from gilk.cli.progress import Beat, interval, say
from gilk.render.names import with_names
from gilk.render.survey import to_json, to_text

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_PATIENCE: Final = 0.5  # seconds that a scan may take before a bar is shown


@click.command()
@click.argument("target")
@click.argument("glob", metavar="[FUNCTION-GLOB]", default="*")
@click.option("-v", "--list", "listing", is_flag=True, help="A row for every function.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@mangled_option
def scan(target: str, glob: str, listing: bool, as_json: bool) -> None:
    """Functions, blocks and points of TARGET, an ELF file, pid:N or kernel, and how each can be spliced."""
    with Bar() as bar:
        found = survey(target, glob, bar.report)
    lines = sources(found) if listing and target != "kernel" else {}
    inlined = without_code(found) if listing and target != "kernel" and glob == "*" else {}
    if as_json:
        click.echo(json.dumps(with_names(to_json(found, listing, lines, inlined))))
    else:
        click.echo(to_text(found, listing, lines, inlined=inlined), nl=False)


class Bar:
    """Progress on standard error for scans that take long: on a terminal a bar, which vanishes at the end; elsewhere
    lines."""

    def __init__(self) -> None:
        self._begun, self._patience = time.monotonic(), min(_PATIENCE, interval())
        self._beat = Beat(self._begun, interval())
        self._drawn: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn is not None:
            self._drawn.stop()

    def report(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if not sys.stderr.isatty():
            say(self._beat.line(now, Activity(what, done, total, "functions")))
            return
        if now - self._begun < self._patience:
            return
        bar = self._drawn or self._draw()
        if what not in self._tasks:
            self._tasks = {what: bar.add_task(what, total=total)}
            for old in bar.task_ids[:-1]:
                bar.remove_task(old)
        bar.update(self._tasks[what], completed=done, refresh=True)

    def _draw(self) -> Progress:
        """Start the bar. It has no thread of its own, because a scan may fork."""
        from rich.console import Console
        from rich.progress import Progress

        self._drawn = Progress(console=Console(stderr=True), auto_refresh=False, transient=True)
        self._drawn.start()
        return self._drawn
