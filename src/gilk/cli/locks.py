# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk locks``: ask who takes the mutexes of a process."""

from __future__ import annotations

from typing import Any

import click

from gilk.cli.asking import ask, target_options


@click.command()
@click.option(
    "--library", default="libc", show_default=True, metavar="IMAGE", help="The image that has pthread_mutex_lock."
)
@click.option(
    "--by", type=click.Choice(("caller", "mutex")), default="caller", show_default=True,
    help="A row for each function that takes mutexes, or for each mutex.",
)  # fmt: skip
@target_options
def locks(library: str, by: str, **given: Any) -> int:
    """Say who takes mutexes in a process, or which, how often, and how long that takes."""
    from gilk.api import questions  # here: --help need not wait for it

    return ask(questions.locks.question(library, by == "mutex"), given)
