# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk slow``: show the calls of a function that take long."""

from __future__ import annotations

from typing import Any

import click

from gilk.cli.asking import ask, target_options
from gilk.cli.duration import Duration
from gilk.errors import GilkError, UsageError


@click.command()
@click.argument("function")
@click.option(
    "--longer-than",
    "threshold",
    type=Duration("1ms or 50us"),
    default="1ms",
    show_default=True,
    metavar="TIME",
    help="How long a slow call takes, at least.",
)
@click.option(
    "--depth", type=click.IntRange(1, 100), default=20, show_default=True, help="How many frames of the stack."
)
@target_options
def slow(function: str, threshold: int, depth: int, **given: Any) -> int:
    """Show the calls of [IMAGE:]FUNCTION that take long, with two arguments and the stack."""
    from gilk.api import questions  # here: --help need not wait for it

    try:
        return ask(questions.slow.question(function, threshold, depth), given)
    except GilkError as error:
        if error.slug != "no-such-probe":  # its text is about a D program, which the user did not write
            raise
        raise UsageError(
            "no-such-function", f"there is no function {function!r}", _hint(function, error.hint)
        ) from None


def _hint(function: str, told: str) -> str:
    """A hint why the function has no probe. ``told``: the reason in the words of D's compiler, if it knows one."""
    if " is inlined " in told:
        return f"{told}: it has no calls; `gilk run -i {function}:entry=time` times it there"
    if ":" in function:
        return "`gilk scan --list FILE` lists the functions of an image"
    return f"without an image it is one of the program itself; name the library that has it, as in LIBRARY:{function}"
