# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk cfg TARGET FUNCTION``: one function, as text, JSON, Graphviz's language or a picture."""

from __future__ import annotations

import json

import click

from gilk.cli.mangled import mangled_option
from gilk.cli.progress import working
from gilk.errors import UsageError
from gilk.render.graph import to_dot, to_json, to_text
from gilk.render.names import with_names


@click.command()
@click.argument("target")
@click.argument("function")
@click.option("--dot", "form", flag_value="dot", help="Print the graph in Graphviz's language.")
@click.option("--svg", "form", flag_value="svg", help="Print a picture, as SVG.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@mangled_option
def cfg(target: str, function: str, form: str | None, as_json: bool) -> None:
    """Disassembly and control-flow graph of FUNCTION in TARGET (an ELF file, pid:N or kernel), points numbered."""
    if form and as_json:
        raise UsageError("usage", f"--{form} and --json are two forms of output", "choose one")
    from gilk.api.scans import cfg as graph_of  # here: --help need not wait for it

    with working("analysing", not as_json):
        graph = graph_of(target, function)
    if as_json:
        click.echo(json.dumps(with_names(to_json(graph))))
    elif form:
        from gilk.render.graph_picture import to_svg  # here: text and JSON need not wait for it

        click.echo(to_dot(graph) if form == "dot" else to_svg(graph), nl=False)
    else:
        click.echo(to_text(graph), nl=False)
