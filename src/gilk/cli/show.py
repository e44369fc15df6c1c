# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk show FILE``: print a file of samples, or show its trace as a page, a tree, a flame graph or a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from gilk.api.function_lines import FunctionLines
from gilk.cli.duration import Duration
from gilk.cli.mangled import mangled_option
from gilk.cli.progress import in_lines
from gilk.errors import UsageError
from gilk.render import flame, flow_table, flow_tree, output, timeline
from gilk.render import source as lines_shown
from gilk.render import stacks as stacks_drawn
from gilk.render.names import with_names
from gilk.render.text import cell
from gilk.render.trace import load, to_json, to_text
from gilk.render.trace_names import with_readable_names

_SAMPLES, _LINES = 10, 200


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False, metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--limit", type=click.IntRange(0), help="How many samples to print (10), or lines or functions (200).")
@click.option("--thread", "threads", multiple=True, help="Only samples of this thread, by name or number; repeatable.")
@click.option(
    "--html",
    "page",
    is_flag=False,
    flag_value="",
    metavar="[OUT]",
    help="Make a page that draws it over time; FILE.html.",
)
@click.option(
    "--flame", "picture", type=click.Path(dir_okay=False, path_type=Path), metavar="OUT.svg", help="Make a flame graph."
)
@click.option(
    "--of", "stacks", default="", metavar="NAME", help="With --flame, of a file of D's events: the aggregation, as @a."
)
@click.option("--tree", is_flag=True, help="Print the tree of calls.")
@click.option("--table", is_flag=True, help="Print a line per function.")
@click.option(
    "--depth", type=click.IntRange(0), default=0, help="How deep a tree goes; all the way.", show_default=False
)
@click.option(
    "--min-time", "least", type=Duration("10us or 1ms"), default="0ns", metavar="TIME",
    help="Leave calls that took less out of a tree: 10us, 1ms.",
)  # fmt: skip
@click.option(
    "--source",
    "source",
    is_flag=False,
    flag_value="*",
    metavar="[GLOB]",
    help="Print the lines of the source, with how often each ran; of files with such names only.",
)
@mangled_option
def show(
    file: Path | None, as_json: bool, limit: int | None, threads: tuple[str, ...], page: str | None,
    picture: Path | None, stacks: str, tree: bool, table: bool, depth: int, least: int, source: str | None,
) -> None:  # fmt: skip
    """Print what is in FILE: counts, durations, what was lost. A trace: by function, as a tree, a page or a picture."""
    if picture is not None and file is not None and _has_events(file):
        return _show_stacks(file, picture, stacks, as_json)
    if stacks:
        raise UsageError("usage", "--of is about --flame of a file of events of a D program")
    if file is None:
        if not page and source in (None, "*"):
            raise UsageError("usage", "there is no FILE", "gilk show FILE; gilk show --help has the rest")
        file = Path(page or str(source))  # `show --html FILE`: FILE is neither a page to be made nor a name
        page, source = "" if page else page, source and "*"
    with in_lines("reading the file", not as_json):
        trace = load(file, threads)
        shown = with_readable_names(trace)
        found: dict[str, Any] = {}
        text, beginnings = "", FunctionLines(shown.about if not as_json else trace.about)
        if page is not None:
            made = Path(page) if page else file.with_name(file.stem + ".html")
            found["html"] = {"file": str(made), "bytes": output.write(made, [timeline.page(shown)])}
            text += f"{made}\n"
        if picture is not None:
            places = FunctionLines(shown.about) if as_json else beginnings
            output.write(picture, [flame.flame(shown.flow, timeline.heading(trace), places)])
            found["flame"] = {"file": str(picture), **flame.to_json(trace.flow)}
            text += f"{picture}\n"
        if tree:
            limits = flow_tree.TreeLimits(depth, least, _LINES if limit is None else limit)
            found["tree"] = flow_tree.tree_json(trace.flow, limits, beginnings) if as_json else []
            text += "" if as_json else flow_tree.tree_text(shown.flow, limits, beginnings)
        if table:
            rows = flow_table.functions(trace.flow)[: limit or None] if as_json else []
            found["functions"] = flow_table.with_lines(rows, beginnings)
            most = _LINES if limit is None else limit
            text += "" if as_json else flow_table.table_text(shown.flow, most, lines=beginnings)
        if source is not None:
            from gilk.api.coverage import stored_lines  # here: other uses need not wait for it

            lines = stored_lines(trace, source)
            found["source"] = lines_shown.to_json(lines.sources, lines.built) if as_json else []
            most = _LINES if limit is None else limit
            text += "" if as_json else lines_shown.to_text(lines.sources, lines.built, most)
            text += "".join(f"note: {note}\n" for note in lines.notes) if not as_json else ""
        text += "".join(f"note: {cell(note)}\n" for note in beginnings.notes) if not as_json else ""
        if not found:
            number = _SAMPLES if limit is None else limit
            text = "" if as_json else to_text(shown, number)
            found = to_json(trace, number) if as_json else {}
    click.echo(json.dumps(with_names(found)) if as_json else text, nl=as_json)


def _has_events(file: Path) -> bool:
    from gilk.render.d import event_file  # here: other uses need not wait for it

    return event_file.is_one(file)


def _show_stacks(file: Path, picture: Path, name: str, as_json: bool) -> None:
    """Draw the stacks in a file of events as a flame graph."""
    from gilk.render.d.stack_file import stacks_of  # here: other uses need not wait for it

    found = stacks_of(file, name)
    output.write(picture, [stacks_drawn.flame(found, file.name)])
    told = {"flame": {"file": str(picture), "total": sum(one.count for one in found)}}
    click.echo(json.dumps(told) if as_json else str(picture))
