# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk syscalls``: count and time the system calls of a process."""

from __future__ import annotations

from typing import Any

import click

from gilk.cli.asking import ask, target_options


@click.command()
@target_options
def syscalls(**given: Any) -> int:
    """Say which system calls a process makes, how often they fail, and how long they take."""
    from gilk.api import questions  # here: --help need not wait for it

    return ask(questions.syscalls.question(), given)
