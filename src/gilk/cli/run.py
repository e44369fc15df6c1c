# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk run``: put instruments into running or new processes and bring back the samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gilk.api import ahead
from gilk.cli.choosing import processes_options
from gilk.cli.duration import Duration
from gilk.cli.mangled import mangled_option
from gilk.cli.running import carry_out_for_user, command_option, lasting_option, split_command, verbose_option
from gilk.errors import UsageError

if TYPE_CHECKING:
    from gilk.api import runs
    from gilk.api.costs import HitCosts

_HELP = """Put instruments at points of a program while it runs.

\b
POINTS is [IMAGE:]FUNCTION:WHERE, with shell globs; IMAGE is the main program unless named. The image `kernel` is the
running kernel with its modules: it takes root, and `gilk driver load`.
WHERE is entry, return, blocks, blocks-post, @N:pre, @N:post (see gilk cfg) or +0x1c.
POINTS may also be [IMAGE:]FILE:LINE, a line of the source, as parse.c:123, if there is debug information;
usdt:PROVIDER:NAME, a USDT probe; or syscall:NAME, a system call. With POINTS/CONDITION/ the instrument does something
only where an expression of D is true, as in 'libc:malloc:entry/arg0 > 4096/=stack'.
INSTRUMENT is one of
  count            count hits
  stamp            record the time
  args             record the time and the six integer argument registers
  regs             record all general registers
  time             at entry: record every call's start and duration
  stack            count the stacks that lead there
  FILE.c:FUNCTION  call a C function (#include <gilk.h>)

\b
Or FUNCTIONS=@STRATEGY, optionally followed by :INSTRUMENT, chooses points in each function:
  @path      before every block            @time      entry and returns
  @calls     before every call             @edges     edges, counted
  @coverage  blocks, until they were hit   @FILE.py:FUNCTION  a strategy of yours

A launched program keeps its input, output and exit status; the report goes to standard error. Ctrl-C ends the session
and takes all instruments out.
"""


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
@processes_options
@command_option()
@lasting_option
@click.option(
    "--every", type=Duration("1s or 500ms", least=10_000_000), metavar="TIME",
    help="Print the hits of each period of so long as it ends; with --json an object a line.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write samples to a Parquet file."
)
@click.option(
    "--coverage", "coverage", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Write which lines and blocks ran: FILE.info is lcov's, FILE.drcov is drcov's.",
)  # fmt: skip
@click.option(
    "--longer-than",
    "longer_than",
    type=Duration("1ms or 50us", 1),
    metavar="TIME",
    help="With the instruments time and stack: only calls that take so long.",
)
@click.option(
    "--stacks",
    "stacks",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the stacks: FILE.svg is a flame graph, FILE.folded has a line for each.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the report as one JSON object, the last line of standard output."
)
@click.option(
    "--on", "machine", default="", metavar="MACHINE",
    help="Whose kernel, and where COMMAND runs: lab (a fresh virtual machine) or ssh:HOST.",
)  # fmt: skip
@click.option("--flight", is_flag=True, help="Keep the newest of the kernel's records when there is no more room.")
@click.option(
    "--follow", is_flag=True, help="Instrument also the programs that are executed, in all processes that are begun."
)
@click.option(
    "--by", type=click.Choice(("program", "process")), help="With --follow: tell counts by program, or by process."
)
@click.option(
    "-Z", "waits", is_flag=True, help="Points that mean nothing yet may be in libraries that are opened later."
)
@click.option("--cost", "with_cost", is_flag=True, help="Report also the time that the probes have taken.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no report.")
@verbose_option("the tactics by which points are spliced, and counts by instance of inlined functions")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@mangled_option
def run(
    inserts: tuple[str, ...], pids: tuple[int, ...], line: str | None, lasting: int | None, every: int | None,
    output: Path | None, coverage: Path | None, as_json: bool, quiet: bool, verbose: bool, machine: str, flight: bool,
    follow: bool, by: str | None, waits: bool, with_cost: bool, longer_than: int | None, stacks: Path | None,
    command: tuple[str, ...],
) -> int:  # fmt: skip
    words = split_command(line, command)
    ahead.expect(process=bool(words or pids) and not machine, runs=False)
    from gilk.api import runs  # here: --help need not wait for it

    requests = [runs.parse_request(text, longer_than or 0) for text in inserts]
    _check(requests, longer_than, stacks)
    if not words and not pids and not all(request.of_kernel for request in requests):
        raise UsageError(
            "no-target", "there is nothing to instrument", "give -p PID, --name GLOB, -c 'COMMAND' or -- COMMAND"
        )
    if by is not None and not follow:
        raise UsageError("usage", "--by is about programs that are followed, and there is no --follow")
    if coverage is not None:
        from gilk.api.coverage import check_coverage

        check_coverage(coverage, requests)
    costs = _costs() if with_cost else None
    running = runs.prepare_run(requests, pids, words, output, machine, flight, follow, waits)
    running.costs = costs
    seconds = None if lasting is None else lasting / 1e9

    def report(result: runs.Result) -> runs.RunReport:
        if coverage is not None:
            from gilk.api.coverage import write_coverage

            result.notes += write_coverage(coverage, running, result)
        if stacks is not None:
            _write_stacks(stacks, result, " ".join(words) or "stacks")
        return runs.report(result, by or "")

    look = _periods(running, every, bool(words), as_json)
    return carry_out_for_user(running, seconds, bool(words), as_json, quiet, report, verbose, look)


def _costs() -> HitCosts:
    """The costs of instruments on this machine. Raises GilkError."""
    from gilk.api.costs import hit_costs  # here: most runs need not wait for it

    return hit_costs()


def _check(requests: Sequence[runs.AnyRequest], longer_than: int | None, stacks: Path | None) -> None:
    """Check that the options fit the requests and each other. Raises UsageError `usage`, `bad-stacks`."""
    if longer_than is not None and not any(request.instrument in ("time", "stack") for request in requests):
        raise UsageError("usage", "--longer-than is about the instruments time and stack, and there is neither")
    if stacks is None:
        return
    if stacks.suffix not in (".svg", ".folded"):
        hint = "FILE.svg is a flame graph, FILE.folded has a line for each path"
        raise UsageError("bad-stacks", f"the name of {stacks} says no format of stacks", hint)
    if not any(request.instrument == "stack" for request in requests):
        hint = "for example -i 'libc:malloc:entry=stack'"
        raise UsageError("bad-stacks", "--stacks is about the instrument stack, and there is none", hint)


def _write_stacks(file: Path, result: runs.Result, title: str) -> None:
    """Write the stacks as a flame graph or as folded lines, by the suffix of ``file``. Raises StoreError
    `cannot-write`."""
    from gilk.render import output, stacks

    found = result.stacks
    output.write(file, [stacks.flame(found, title)] if file.suffix == ".svg" else stacks.folded(found))


def _periods(running: runs.Run, every: int | None, launched: bool, as_json: bool) -> Callable[[runs.Progress], None]:
    """A function that is called with the progress of the run, and prints each period that has ended. ``every`` is
    the length of a period in ns; None prints nothing."""
    if every is None:
        return lambda _state: None
    import json

    from gilk.api.runs import Period, Periods, period_json, period_text

    def tell(period: Period) -> None:
        text = json.dumps(period_json(period)) + "\n" if as_json else period_text(period)
        click.echo(text, nl=False, err=launched and not as_json)

    return Periods(running, every / 1e9, tell).look
