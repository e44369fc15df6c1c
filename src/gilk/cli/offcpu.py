# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk offcpu``: ask where the threads of a process wait."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from gilk.cli.asking import asked, launches, target_options
from gilk.cli.duration import Duration


@click.command()
@click.option(
    "--longer-than",
    "threshold",
    type=Duration("1ms or 50us", 1),
    default="1us",
    show_default=True,
    metavar="TIME",
    help="How long a wait lasts that counts, at least.",
)
@click.option("--stacks", is_flag=True, help="Print a row for each stack.")
@click.option(
    "--depth", type=click.IntRange(1, 100), default=20, show_default=True, help="How many frames of the stacks."
)
@target_options
def offcpu(threshold: int, stacks: bool, depth: int, **given: Any) -> int:
    """Say where the threads of a process wait, in which system calls, and for how long."""
    from gilk.api import questions  # here: --help need not wait for it
    from gilk.render.offcpu import to_json, to_text

    account = questions.Account()
    answer = asked(questions.offcpu.question(threshold, depth), given, account.begin, account.look)
    if given["as_json"]:
        sys.stdout.flush()
        click.echo(json.dumps(to_json(answer, account)))
    else:
        click.echo(to_text(answer, account, given["limit"], stacks), nl=False, err=launches(given))
    return int(answer.status)
