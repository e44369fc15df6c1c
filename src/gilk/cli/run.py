# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk run``: put instruments into running or new processes and bring back the samples."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import click

from gilk import api
from gilk.cli.progress import progress, working
from gilk.errors import UsageError

_HELP = """Put instruments at points of a program while it runs.

\b
POINTS is [IMAGE:]FUNCTION:WHERE, with shell globs; IMAGE is the main program unless named. The image `kernel` is the
running kernel with its modules: it takes root, and `gilk driver load`.
WHERE is entry, return, blocks, blocks-post, @N:pre, @N:post (see gilk cfg) or +0x1c.
INSTRUMENT is one of
  count            count hits
  stamp            record the time
  args             record the time and the six integer argument registers
  regs             record all general registers
  time             at entry: record every call's start and duration
  FILE.c:FUNCTION  call a C function (#include <gilk.h>)

\b
Or FUNCTIONS=@STRATEGY, optionally followed by :INSTRUMENT, chooses points in each function:
  @path      before every block            @time      entry and returns
  @calls     before every call             @edges     edges, counted
  @coverage  blocks, until they were hit   @FILE.py:FUNCTION  a strategy of yours

A launched program keeps its input, output and exit status; the report goes to standard error. Ctrl-C ends the session
and takes all instruments out.
"""


class Stop:
    """Becomes true with the first SIGINT, SIGTERM or SIGHUP; ``hard`` with the second SIGINT."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> bool:
        return self.count > 0

    def arrived(self, number: int, _frame: FrameType | None) -> None:
        self.count += 1

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.arrived)


@click.command(help=_HELP)
@click.option(
    "-i",
    "--insert",
    "inserts",
    multiple=True,
    required=True,
    metavar="POINTS=INSTRUMENT",
    help="What to put where; repeatable.",
)
@click.option("-p", "--pid", "pids", multiple=True, type=int, help="A running process; repeatable.")
@click.option("-c", "--command", "line", help="A command line to launch, split as a shell would.")
@click.option("--for", "seconds", type=click.FloatRange(min=0), help="Take everything out after so many seconds.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write samples to a Parquet file."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the report as one JSON object, the last line of standard output."
)
@click.option(
    "--on", "machine", default="", metavar="MACHINE",
    help="Whose kernel, and where COMMAND runs: lab (a fresh virtual machine) or ssh:HOST.",
)  # fmt: skip
@click.option("--flight", is_flag=True, help="Of the kernel's records keep the newest, where there is no more room.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no report.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run(
    inserts: tuple[str, ...], pids: tuple[int, ...], line: str | None, seconds: float | None,
    output: Path | None, as_json: bool, quiet: bool, machine: str, flight: bool,
    command: tuple[str, ...],
) -> int:  # fmt: skip
    words = split_command(line, command)
    requests = [api.parse_request(text) for text in inserts]
    if not words and not pids and not all(request.of_kernel for request in requests):
        raise UsageError("no-target", "there is nothing to instrument", "give -p PID, -c 'COMMAND' or -- COMMAND")
    stop = Stop()
    running = api.prepare_run(requests, pids, words, output, machine, flight)
    stop.install()
    try:
        with working("analysing and planning", not quiet and not as_json):
            running.begin()
        with progress(not quiet and not as_json and not words) as show:  # a launched program has the terminal
            running.wait(seconds, until(stop, bool(words) and not machine), show)
        return _end(running, stop, as_json, quiet, bool(words))
    finally:
        for process in running.processes:
            process.keeper.leave()


def split_command(line: str | None, command: tuple[str, ...]) -> tuple[str, ...]:
    if line is not None and command:
        raise UsageError("two-commands", "give a command with -c or after --, not both")
    try:
        return tuple(shlex.split(line)) if line is not None else command
    except ValueError as error:
        raise UsageError("bad-command", f"{line!r}: {error}") from None


def until(stop: Stop, launched: bool) -> Callable[[], bool]:
    """A launched program gets the terminal's Ctrl-C itself: the first one is its own affair."""
    return (lambda: stop.count > 1) if launched else stop


def _end(running: api.Run, stop: Stop, as_json: bool, quiet: bool, launched: bool) -> int:
    result = running.finish()
    report = api.report(result)
    if not quiet and not as_json:
        click.echo(report.render(), nl=False, err=launched)
    status = exit_status(running, stop) if launched else 0
    if as_json:
        sys.stdout.flush()
        click.echo(json.dumps(report.to_json()))
    return status


def exit_status(running: api.Run, stop: Stop) -> int:
    """Of the launched program; it is waited for, unless the user has had enough. Or of the loss of its machine."""
    if running.lost is not None:
        return running.lost.exit_status
    if running.elsewhere is not None:
        status = running.elsewhere.status
        return 130 if status is None else status
    target = running.processes[-1]
    while stop.count < 2:
        end = target.wait()
        if end is not None:
            return end.code
        signal.sigtimedwait((signal.SIGCHLD,), 0.02)
    return 130
