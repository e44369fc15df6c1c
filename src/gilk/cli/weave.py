# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk weave FILE``: aspects in running processes, until Ctrl-C or for a time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gilk.cli.progress import working
from gilk.cli.running import Stop, command_option, lasting_option, split_command, status_of
from gilk.errors import UsageError

if TYPE_CHECKING:
    from gilk.api.aspects import Weaving, WovenReport

_HELP = """Weave the aspects of FILE into processes, and print what their advice reports.

\b
All goes in, or nothing: what cannot be woven is refused by name before anything has changed. Ctrl-C, the end of the
time, or the end of the processes takes everything out. docs/aspect/language.md is about the language.
"""


@click.command(help=_HELP)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-p", "--pid", "pids", multiple=True, type=int, help="A running process, of all groups; repeatable.")
@click.option(
    "-g", "--group", "groups", multiple=True, metavar="GROUP=PID[,PID]",
    help="Processes that are members of a group of the file; repeatable.",
)  # fmt: skip
@command_option("; it is a member of all groups")
@lasting_option
@click.option("--dry-run", is_flag=True, help="Say what would be woven, and what stands against it. Touch nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print an object for each report, and one at the end.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no counts; reports alone.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def weave(
    file: Path, pids: tuple[int, ...], groups: tuple[str, ...], line: str | None, lasting: int | None, dry_run: bool,
    as_json: bool, quiet: bool, command: tuple[str, ...],
) -> int:  # fmt: skip
    words = split_command(line, command)
    from gilk.api import aspects  # here: --help need not wait for it

    members = aspects.members(groups, pids)
    if not members and not words:
        raise UsageError("no-target", "there is nothing to weave into", "give -p PID, -g GROUP=PID, or -c 'COMMAND'")
    stop = Stop(shared=bool(words))
    with aspects.held(file, members, words) as weaving:
        if dry_run:
            return _dry(weaving, as_json)
        return _carry_out(weaving, None if lasting is None else lasting / 1e9, stop, as_json, quiet, bool(words))


def _dry(weaving: Weaving, as_json: bool) -> int:
    from gilk.render import woven

    with working("compiling", not as_json):
        found = [each for one in weaving.processes for each in one.dry()]
    click.echo(woven.dry_json(found) if as_json else woven.dry_text(found), nl=as_json)
    return 1 if any(one.refused for one in found) else 0


def _carry_out(
    weaving: Weaving, seconds: float | None, stop: Stop, as_json: bool, quiet: bool, launched: bool
) -> int:  # fmt: skip
    from gilk.render import woven

    def tell(report: WovenReport) -> None:
        click.echo(woven.report_json(report) if as_json else woven.report_text(report), err=launched and not as_json)

    stop.install()
    with working("analysing and planning", not (quiet or as_json)), stop.at_once():
        weaving.weave()
    for one in weaving.processes:
        one.process.release()
    weaving.wait(seconds, stop, tell)
    weaving.unweave()
    for report in weaving.reports(final=True):
        tell(report)
    summary = [one.summary() for one in weaving.processes], weaving.counts(), weaving.tables()
    if as_json:
        sys.stdout.flush()
        click.echo(woven.summary_json(*summary))
    elif not quiet:
        click.echo(woven.summary_text(*summary), nl=False, err=launched)
    return status_of(weaving.processes[-1].process.wait, stop) if launched else 0
