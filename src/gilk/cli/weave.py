# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk weave FILE``: aspects in running processes, until Ctrl-C or for a time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gilk.cli.progress import working
from gilk.cli.running import Stop, command_option, lasting_option, split_command, status_of
from gilk.errors import UsageError

if TYPE_CHECKING:
    from gilk.api.aspects import Weaving, WovenReport
    from gilk.errors import GilkError

_HELP = """Weave the aspects of FILE into processes, and print what their advice reports.

\b
All goes in, or nothing: what cannot be woven is refused by name before anything has changed. Ctrl-C, the end of the
time, or the end of the processes takes everything out. docs/aspect/language.md is about the language.
"""


@click.command(help=_HELP)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-p", "--pid", "pids", multiple=True, type=int, help="A running process, of all groups; repeatable.")
@click.option(
    "-g", "--group", "groups", multiple=True, metavar="GROUP=MEMBERS",
    help="Members of a group of the file: A=PID,PID, A=name:GLOB (those there are), A=all:GLOB (later ones too), "
    "A=children:PID; repeatable.",
)  # fmt: skip
@click.option(
    "--at-least", type=click.IntRange(1), metavar="K",
    help="Go on if so many processes can be woven; those that refuse are named. Without it, one that refuses is enough "
    "for none to be woven.",
)  # fmt: skip
@command_option("; it is a member of all groups")
@lasting_option
@click.option("--dry-run", is_flag=True, help="Say what would be woven, and what stands against it. Touch nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print an object for each report, and one at the end.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no counts; reports alone.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def weave(
    file: Path, pids: tuple[int, ...], groups: tuple[str, ...], at_least: int | None, line: str | None,
    lasting: int | None, dry_run: bool, as_json: bool, quiet: bool, command: tuple[str, ...],
) -> int:  # fmt: skip
    words = split_command(line, command)
    from gilk.api import aspects  # here: --help need not wait for it

    chosen = aspects.choices(groups, pids)
    if not chosen and not words:
        raise UsageError("no-target", "there is nothing to weave into", "give -p PID, -g GROUP=PID, or -c 'COMMAND'")
    told = _Told(as_json, quiet, bool(words))
    stop = Stop(shared=bool(words))
    with aspects.held(file, chosen, words, at_least) as (weaving, members):
        if dry_run:
            return _dry(weaving, as_json)
        stop.install()
        launched = weaving.processes[-1].process if words else None
        with working("analysing and planning", not (quiet or as_json)), stop.at_once():
            weaving.weave()
        told.begun(weaving)
        for pid, error in weaving.refused.items():
            told.refused(pid, error)
        with aspects.tended(weaving, members, told.refused) as tend:
            _carry_out(weaving, None if lasting is None else lasting / 1e9, stop, told, tend)
        return status_of(launched.wait, stop) if launched is not None else 0


def _dry(weaving: Weaving, as_json: bool) -> int:
    from gilk.render import woven

    with working("compiling", not as_json):
        found = [each for one in weaving.processes for each in one.dry()]
    click.echo(woven.dry_json(found) if as_json else woven.dry_text(found), nl=as_json)
    return 1 if any(one.refused for one in found) else 0


class _Told:
    """Reports, refusals and the end, as they are printed: beside a launched program's own output, or in its place."""

    def __init__(self, as_json: bool, quiet: bool, launched: bool) -> None:
        from gilk.render import woven  # here: --help need not wait for it

        self._woven, self._json, self._quiet = woven, as_json, quiet
        self._err = launched and not as_json

    def begun(self, weaving: Weaving) -> None:
        """Everything is in, and on."""
        if self._json:
            click.echo(self._woven.begun_json(weaving.summaries()))
        elif not self._quiet and not self._err:
            click.echo(self._woven.begun_text(weaving.summaries()), err=True)

    def report(self, report: WovenReport) -> None:
        click.echo(self._woven.report_json(report) if self._json else self._woven.report_text(report), err=self._err)

    def refused(self, pid: int, error: GilkError) -> None:
        """A process that does not take part; the others go on."""
        if self._json:
            click.echo(self._woven.refused_json(pid, error))
        else:
            click.echo(self._woven.refused_text(pid, error), err=True)

    def end(self, weaving: Weaving) -> None:
        summary = weaving.summaries(), weaving.counts(), weaving.tables()
        if self._json:
            sys.stdout.flush()
            click.echo(self._woven.summary_json(*summary))
        elif not self._quiet:
            click.echo(self._woven.summary_text(*summary), nl=False, err=self._err)


def _carry_out(
    weaving: Weaving, seconds: float | None, stop: Stop, told: _Told, tend: Callable[[], bool]
) -> None:  # fmt: skip
    for one in weaving.processes:
        one.process.release()
    weaving.wait(seconds, stop, told.report, tend)
    weaving.unweave()
    for report in weaving.reports(final=True):
        told.report(report)
    told.end(weaving)
