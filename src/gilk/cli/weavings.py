# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk aspect list``, ``show``, ``on``, ``off`` and ``remove``: look at and change the weavings on this machine."""

from __future__ import annotations

import json
from typing import Any

import click

from gilk.cli.running import when_idle_option

_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_NUMBER = click.argument("number", type=int, metavar="ID")


@click.command("list")
@_JSON
def list_weavings(as_json: bool) -> int:
    """List the weavings of your own, and as root those of all users.

    \b
    An ID is the number of the process that weaves.
    """
    from gilk.api import weavings
    from gilk.render import weavings as render

    found = weavings.listed()
    click.echo(json.dumps({"weavings": found}) if as_json else render.listed(found), nl=as_json)
    return 0


@click.command()
@_NUMBER
@_JSON
def show(number: int, as_json: bool) -> int:
    """Show a weaving: its processes, the matches and instances of its aspects, its last reports."""
    from gilk.api import weavings
    from gilk.render import weavings as render

    found = weavings.ask(number, {"ask": "show"})
    click.echo(json.dumps(found) if as_json else render.shown(number, found), nl=as_json)
    return 0


def _turning(on: bool) -> click.Command:
    word = "on" if on else "off"

    @click.command(word, help=f"Switch a weaving {word}, or one of its ASPECTS alone; its advice stays where it is.")
    @_NUMBER
    @click.argument("aspects", nargs=-1)
    def turn(number: int, aspects: tuple[str, ...]) -> int:
        from gilk.api import weavings

        for name in aspects or (None,):
            words: dict[str, Any] = {"ask": "turn", "on": on} | ({} if name is None else {"aspect": name})
            weavings.ask(number, words)
        return 0

    return turn


@click.command()
@_NUMBER
@when_idle_option
def remove(number: int, when_idle: int | None) -> int:
    """Take a weaving out of all its processes, and wait until it is out."""
    from gilk.api import weavings

    weavings.remove(number, None if when_idle is None else when_idle / 1e9)
    return 0


COMMANDS = (list_weavings, show, _turning(True), _turning(False), remove)
