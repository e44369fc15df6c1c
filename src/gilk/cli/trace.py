# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk trace``: record every call between two events."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from gilk.api import ahead
from gilk.cli.choosing import processes_options, scope_options
from gilk.cli.mangled import mangled_option
from gilk.cli.running import carry_out_for_user, command_option, split_command, verbose_option
from gilk.errors import UsageError

_HELP = """Follow the flow of control through a program and its libraries, from one event to another.

\b
EVENT is one of
  now                 at once
  call:FUNCTION[:N]   the N-th call of a function; [IMAGE:]FUNCTION, the main program's unless IMAGE is named
  return:FUNCTION[:N] the N-th return from it
  after:2s            so long after gilk was ready
  for:200ms           so long after the trace began
  signal:USR2         gilk itself is sent that signal
  key:ctrl-alt-f      a combination of keys, on this machine's keyboard
  exit                the program ends

Until the first event the program runs as if gilk were not there. FILE is for gilk show, export, diff and anomalies.
Functions that are called so often that following them would slow the program down are left out, and the trace says
which, and from when on; --all follows them too. Ctrl-C ends the trace and takes everything out.
"""


@click.command(help=_HELP)
@processes_options
@command_option()
@click.option("--start", default="now", metavar="EVENT", show_default=True, help="When to begin.")
@click.option("--stop", "end", default="exit", metavar="EVENT", show_default=True, help="When to end.")
@scope_options
@click.option(
    "--kernel", "in_kernel", multiple=True, is_flag=False, flag_value="*", metavar="[GLOB]",
    help="Follow also the kernel's functions, or these of them, while the traced program is in them; repeatable."
    " irq: also in the interrupts that come to its processors while others run.",
)  # fmt: skip
@click.option(
    "--on", "machine", default="", metavar="MACHINE",
    help="Whose kernel, and where COMMAND runs: lab or ssh:HOST. Only the kernel is followed then.",
)  # fmt: skip
@click.option(
    "--module", "modules", multiple=True, metavar="FILE.ko",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A kernel module to be loaded there first; repeatable.",
)  # fmt: skip
@click.option(
    "--depth", type=click.IntRange(min=0), default=0, metavar="N", help="Only so many levels of calls within calls."
)
@click.option("--follow", is_flag=True, help="Also in the programs that are executed, in all processes that are begun.")
@click.option("--all", "everything", is_flag=True, help="Leave nothing out for being called too often.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("trace.parquet"),
    show_default=True, help="Where the trace goes.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object, the last line of output.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no report.")
@verbose_option("the state of each call that is not whole")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@mangled_option
def trace(
    pids: tuple[int, ...], line: str | None, start: str, end: str, scope: tuple[str, ...], skip: tuple[str, ...],
    in_kernel: tuple[str, ...], machine: str, modules: tuple[Path, ...], depth: int, follow: bool, everything: bool,
    output: Path, as_json: bool, quiet: bool, verbose: bool, command: tuple[str, ...],
) -> int:  # fmt: skip
    words = split_command(line, command)
    if not words and not pids and not in_kernel:
        raise UsageError(
            "no-target", "there is nothing to trace", "give -p PID, --name GLOB, -c 'COMMAND' or -- COMMAND"
        )
    ahead.expect(process=bool(words or pids) and not machine, runs=False)
    from gilk.api import traces  # here: --help need not wait for it

    running = traces.prepare_trace(
        pids, words, output, start, end, scope, skip, everything, in_kernel, machine, modules, depth, follow
    )
    return carry_out_for_user(
        running, None, bool(words), as_json, quiet, partial(traces.trace_report, running), verbose
    )
