# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk top``: show live in which functions a process spends its time."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from gilk.cli.asking import one_target, target_options
from gilk.cli.choosing import scope_options
from gilk.cli.duration import Duration
from gilk.cli.running import Stop, begun, exit_status, let_go_at_last, warned

if TYPE_CHECKING:
    from gilk.api.tops import Result, TopPeriod

_LEAST = 10_000_000  # ns, the shortest period
_AROUND = 3  # lines of a screen that are not rows of the table
Show = Callable[[Any], None]


@click.command()
@scope_options
@click.option(
    "--every", type=Duration("1s or 500ms", _LEAST), default="1s", show_default=True, metavar="TIME",
    help="How long a period is, 10ms or more.",
)  # fmt: skip
@click.option(
    "--sort", type=click.Choice(["self", "total", "calls"]), default="self", show_default=True,
    help="What the first function has the most of.",
)  # fmt: skip
@target_options
def top(scope: tuple[str, ...], skip: tuple[str, ...], every: int, sort: str, **given: Any) -> int:
    """Show in which functions a process spends its time, period by period, and in all at the end."""
    command = one_target(given)
    from gilk.api import tops  # here: --help need not wait for it

    stop, launched, quiet = Stop(shared=bool(command)), bool(command), given["quiet"] or given["as_json"]
    with _shown(given, sort, launched) as show:
        running = tops.prepare_top(given["pid"], command, every, show, scope, skip, given["lasting"])
        with let_go_at_last(running):
            begun(running, stop, quiet)
            running.wait(None, stop, lambda _progress: None)
            result = running.finish()
            status = exit_status(running, stop) if launched else warned(result, given["as_json"])
    _print(running.whole(result), result, given, sort, launched)
    return status


@contextlib.contextmanager
def _shown(given: dict[str, Any], sort: str, launched: bool) -> Iterator[Show]:
    """Yield a function that shows a period; on a terminal, each period replaces the one before."""
    if given["as_json"] or launched or not sys.stdout.isatty():
        yield lambda period: _write(period, given, sort, launched)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from gilk.render.top import to_text

    console = Console()
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def show(period: TopPeriod) -> None:
            room = max(1, console.height - _AROUND)
            text = to_text(period, min(given["limit"] or room, room), sort, terminal=False)
            live.update(Text("\n".join(text.splitlines()[: console.height - 1]), no_wrap=True), refresh=True)

        yield show


def _write(period: TopPeriod, given: dict[str, Any], sort: str, launched: bool) -> None:
    from gilk.render.names import with_names
    from gilk.render.top import to_json, to_text

    if given["as_json"]:
        click.echo(json.dumps(with_names(to_json(period, sort))))
    else:
        click.echo(to_text(period, given["limit"], sort) + "\n", nl=False, err=launched)


def _print(period: TopPeriod, result: Result, given: dict[str, Any], sort: str, launched: bool) -> None:
    """Print the totals of the whole run, and how the session ended."""
    from gilk.render.names import with_names
    from gilk.render.question import ending
    from gilk.render.top import to_json, to_text

    if given["as_json"]:
        rest = {"notes": result.notes, "partial": result.partial, "restored": result.restored}
        sys.stdout.flush()
        click.echo(json.dumps(with_names(to_json(period, sort) | rest)))
        return
    text = to_text(period, given["limit"], sort)
    click.echo(text + ending(result.restored, result.notes), nl=False, err=launched)
