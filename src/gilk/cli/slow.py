# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk slow``: show the calls of a function that take long."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gilk.cli.asking import ask, one_target, target_options
from gilk.cli.choosing import scope_options
from gilk.cli.duration import Duration
from gilk.cli.running import Stop, begun, exit_status, let_go_at_last, warned
from gilk.errors import GilkError, UsageError

if TYPE_CHECKING:
    from gilk.api.runs import Result
    from gilk.api.slow_calls import SlowCalls


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
@click.option("--tree", is_flag=True, help="Show what the slow calls call, and what other calls do otherwise.")
@scope_options
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.parquet",
    help="With --tree: keep the trace.",
)  # fmt: skip
@target_options
def slow(
    function: str, threshold: int, depth: int, tree: bool, scope: tuple[str, ...], skip: tuple[str, ...],
    output: Path | None, **given: Any,
) -> int:  # fmt: skip
    """Show the calls of [IMAGE:]FUNCTION that take long, with two arguments and the stack; or as a tree."""
    if tree:
        return _as_tree(function, threshold, scope, skip, output, given)
    if scope or skip or output is not None:
        raise UsageError("usage", "--scope, --skip and -o are about what slow calls call: give --tree, too")
    from gilk.api import questions  # here: --help need not wait for it

    try:
        return ask(questions.slow.question(function, threshold, depth), given)
    except GilkError as error:
        if error.slug != "no-such-probe":  # its text is about a D program, which the user did not write
            raise
        raise UsageError(
            "no-such-function", f"there is no function {function!r}", _hint(function, error.hint)
        ) from None


def _as_tree(
    function: str, threshold: int, scope: tuple[str, ...], skip: tuple[str, ...], output: Path | None,
    given: dict[str, Any],
) -> int:  # fmt: skip
    """Follow the process, and show the slow calls as a tree; returns the exit status."""
    command = one_target(given)
    from gilk.api.slow_calls import SlowTrace  # here: --help need not wait for it

    silent, stop = given["quiet"] or given["as_json"], Stop(shared=bool(command))
    with tempfile.TemporaryDirectory() as place:
        file = output or Path(place) / "slow.parquet"
        asked = SlowTrace(function, given["pid"], command, file, given["lasting"], scope, skip)
        with let_go_at_last(asked.running):
            begun(asked.running, stop, silent)
            asked.note_images()
            asked.running.wait(None, stop, lambda _progress: None)
            result = asked.running.finish()
            status = exit_status(asked.running, stop) if command else warned(result, given["as_json"])
        found = asked.found(threshold)
    _print_tree(found, threshold, result, given, bool(command))
    return status


def _print_tree(found: SlowCalls, threshold: int, result: Result, given: dict[str, Any], launched: bool) -> None:
    from gilk.render.names import with_names
    from gilk.render.question import ending
    from gilk.render.slow import to_json, to_text

    if given["as_json"]:
        rest = {"notes": result.notes, "partial": result.partial, "restored": result.restored}
        sys.stdout.flush()
        click.echo(json.dumps(with_names(to_json(found, threshold, given["limit"]) | rest)))
        return
    text = to_text(found, threshold, given["limit"]) + ending(result.restored, result.notes)
    click.echo(text, nl=False, err=launched)


def _hint(function: str, told: str) -> str:
    """A hint why the function has no probe. ``told``: the reason in the words of D's compiler, if it knows one."""
    if " is inlined " in told:
        return f"{told}: it has no calls; `gilk run -i {function}:entry=time` times it there"
    if ":" in function:
        return "`gilk scan --list FILE` lists the functions of an image"
    return f"without an image it is one of the program itself; name the library that has it, as in LIBRARY:{function}"
