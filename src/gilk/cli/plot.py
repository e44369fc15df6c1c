# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk plot FILE --kind ...``: a picture of a file of samples."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gilk.cli.duration import Duration
from gilk.cli.mangled import mangled_option
from gilk.cli.progress import in_lines
from gilk.render import plot_draw
from gilk.render.plot import PlotKind, PlotOptions, picture
from gilk.render.plot_data import By, Values
from gilk.render.trace import load
from gilk.render.trace_names import with_readable_names

_HELP = """Draw the samples in FILE.

\b
step       which point when, a line per thread
scatter    durations, logged values, or running numbers, over time
histogram  of durations, of the times between events, or of logged values
spectrum   the power spectrum of arrivals
"""


@click.command(help=_HELP)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--kind", type=click.Choice([str(kind) for kind in PlotKind]), required=True, help="The kind of picture.")
@click.option("--of", multiple=True, metavar="GLOB", help="Only these points or functions; repeatable.")
@click.option("--by", type=click.Choice([str(by) for by in By]), help="The property that makes a series.")
@click.option("--values", type=click.Choice([str(each) for each in Values]), help="The value of each sample to plot.")
@click.option(
    "--scale",
    type=click.Choice(["log", "linear"]),
    help="The scale of the axis of values; in a spectrum, of both axes.",
)
@click.option(
    "--bin", "width", type=Duration("10us or 1ms", least=1), metavar="TIME",
    help="The bins of a spectrum, as 10us or 1ms.",
)  # fmt: skip
@click.option("--query", "sql", default="", metavar="SQL", help="Draw the answer: columns time, y, series.")
@click.option("--title", default="", help="The title, instead of one made from the options.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A .png, .svg or .pdf; FILE-KIND.png."
)
@click.option("--json", "as_json", is_flag=True, help="Print what was drawn as one JSON object.")
@mangled_option
def plot(
    file: Path, kind: str, of: tuple[str, ...], by: str | None, values: str | None, scale: str | None,
    width: int | None, sql: str, title: str, output: Path | None, as_json: bool,
) -> None:  # fmt: skip
    target = output or file.with_name(f"{file.stem}-{kind}.png")
    plot_draw.check(target)
    options = PlotOptions(
        PlotKind(kind), of, By(by) if by else None, Values(values) if values else None,
        scale or "", width or 0, sql, title,
    )  # fmt: skip
    with in_lines("drawing", not as_json):
        made = picture(with_readable_names(load(file)), options)
        plot_draw.save(made, target)
    if as_json:
        click.echo(json.dumps({"file": str(target), **made.to_json()}))
        return
    click.echo(str(target))
    for note in made.notes:
        click.echo(f"note: {note}", err=True)
