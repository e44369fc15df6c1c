# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk experiment run FILE.toml``: a session described in a file, with start and stop times."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gilk.cli.failure import INTERRUPTED
from gilk.cli.mangled import mangled_option
from gilk.cli.running import Stop, carry_out, let_go_at_last, warned

if TYPE_CHECKING:
    from gilk.api import experiments, runs
from gilk.errors import TargetError
from gilk.render.text import table


@click.group()
@mangled_option
def experiment() -> None:
    """Sessions described in a file: targets, instruments with start and stop times, a workload, repetitions."""


@experiment.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The file for samples instead.")
@click.option("--on", "machine", metavar="MACHINE", help="The machine of kernel and workload: lab or ssh:HOST.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, the last line of standard output.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no report.")
def run(file: Path, output: Path | None, machine: str | None, as_json: bool, quiet: bool) -> int:
    """Run the experiment in FILE.

    Ctrl-C takes all instruments out, ends the workload and keeps what there is.
    """
    from gilk.api import experiments  # here: --help need not wait for it

    plan = experiments.load_experiment(file)
    changes = {name: value for name, value in (("output", output), ("machine", machine)) if value is not None}
    plan = dataclasses.replace(plan, **changes)  # type: ignore[arg-type]
    stop, done = Stop(), []
    for number in range(1, plan.repetitions + 1):
        done.append(_one(plan, number, stop, quiet or as_json))
        if not quiet and not as_json:
            heading = f"{plan.name}, {number} of {plan.repetitions}\n" if plan.repetitions > 1 else f"{plan.name}\n"
            click.echo(heading + _text(*done[-1]), nl=False, err=_shares_output(plan))
        if stop():
            break
    if as_json:
        sys.stdout.flush()
        click.echo(json.dumps({"experiment": plan.name, "runs": [experiments.outcome(*each) for each in done]}))
    restored = all(report.restored is not False for _, report in done)
    return INTERRUPTED if stop() else 0 if restored else TargetError.exit_status


def _one(
    plan: experiments.Experiment, number: int, stop: Stop, silent: bool
) -> tuple[experiments.Staged, runs.RunReport]:
    from gilk.api import experiments, runs  # here: --help need not wait for it

    running = experiments.prepare_experiment(plan, number)
    with let_go_at_last(running):
        result = carry_out(running, plan.duration, stop, silent, _shares_output(plan), stop)
        warned(result, silent)
        return running, runs.report(result)


def _shares_output(plan: experiments.Experiment) -> bool:
    """Whether the workload writes to gilk's own standard output, where the report would go."""
    return plan.workload is not None and not plan.workload.stdout


def _text(running: experiments.Staged, report: runs.RunReport) -> str:
    happened = running.happened()
    rows = [
        (each["instrument"], each["target"], _second(each["in"], happened), _second(each["out"], happened),
         each["spliced"], each["refused"], each["failure"])
        for each in happened["instruments"]
    ]  # fmt: skip
    headers = ("instrument", "target", "in at", "out at", "spliced", "refused", "")
    return table(headers, rows, sys.stdout.isatty()) + report.render()


def _second(change: list[int] | None, happened: dict[str, Any]) -> str:
    """The time at which a change was complete, in seconds after the targets were let go; "never" if it was not made."""
    return "never" if change is None else f"{max(change[1] - happened['began'], 0) / 1e9:.3f} s"
