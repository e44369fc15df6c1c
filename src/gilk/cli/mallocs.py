# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk mallocs``: ask who allocates the memory of a process."""

from __future__ import annotations

from typing import Any

import click

from gilk.cli.asking import ask, target_options


@click.command()
@click.option("--library", default="libc", show_default=True, metavar="IMAGE", help="The image that has malloc.")
@target_options
def mallocs(library: str, **given: Any) -> int:
    """Say who allocates memory in a process, how much, and how much of that is freed."""
    from gilk.api import questions  # here: --help need not wait for it

    return ask(questions.mallocs.question(library), given)
