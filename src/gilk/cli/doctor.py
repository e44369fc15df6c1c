# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk doctor`` shows what works on this machine, what is missing, and how to get it. Exit 1 if gilk cannot work."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict

import click

from gilk.cli.checks import FACTS, Check, Status
from gilk.cli.kernel_checks import driver, lab
from gilk.cli.trials import TRIALS

KERNELS = (driver, lab)
COLOURS = {Status.OK: "green", Status.WARN: "yellow", Status.MISSING: "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(as_json: bool) -> int:
    """Show what works on this machine, what is missing, and how to get it."""
    checks = examine()
    healthy = all(check.status != Status.MISSING for check in checks)
    if as_json:
        click.echo(json.dumps({"ok": healthy, "checks": [asdict(check) for check in checks]}))
    else:
        for line in lines(checks):
            click.echo(line)
    return 0 if healthy else 1


def examine() -> list[Check]:
    """The results of all checks: a few basic facts, then the trials that depend on them, then the rest. A check that
    raises becomes a result of its own."""
    return [_guarded(check) for check in (*FACTS[:4], *TRIALS, *FACTS[4:], *KERNELS)]


def _guarded(check: Callable[[], Check]) -> Check:
    try:
        return check()
    except (OSError, ValueError) as error:
        return Check(check.__name__, Status.WARN, f"could not tell: {error}", "the check itself failed")


def lines(checks: Iterable[Check]) -> Iterable[str]:
    """The lines of the report as text: one line for each check, and below a check that is not ok its meaning and its
    fix."""
    for check in checks:
        status = click.style(f"{check.status:<7}", fg=COLOURS[check.status])
        yield f"{status}  {check.name:<9} {check.found}"
        if check.status != Status.OK:
            yield f"                   {check.means}"
            if check.fix:
                yield f"                   -> {check.fix}"
