# SPDX-License-Identifier: LGPL-2.1-or-later
"""Plots of a file of samples: the pictures of `gilk plot`, as numbers for the page that draws them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gilk.render.plot import PlotKind, PlotOptions, picture
from gilk.render.plot_data import By, Values
from gilk.render.trace import load
from gilk.render.trace_names import with_readable_names

Json = dict[str, Any]


def plotted(path: str, kind: str, by: str, values: str, scale: str, of: list[str]) -> Json:
    """The picture as JSON values: its axes, its series with their numbers, and notes. '' is what suits the kind. Raises
    UsageError `nothing-to-plot`, StoreError.
    """
    options = PlotOptions(
        PlotKind(kind), tuple(of), By(by) if by else None, Values(values) if values else None, scale
    )  # fmt: skip
    made = picture(with_readable_names(load(Path(path))), options)
    told = made.to_json()
    series = [
        {**about, "x": _numbers(line.x), "y": _numbers(line.y)}
        for about, line in zip(told["series"], made.lines, strict=True)
    ]
    axes = {"x_label": made.x_label, "y_label": made.y_label, "x_log": made.x_log, "y_log": made.y_log}
    return {**told, **axes, "series": series, "ticks": list(made.ticks), "command": _command(path, options)}


def _numbers(values: NDArray[Any]) -> list[float]:
    """The numbers with as many digits as a screen can show."""
    return [float(f"{value:.7g}") for value in values.tolist()]


def _command(path: str, options: PlotOptions) -> str:
    words = ["gilk", "plot", path, "--kind", str(options.kind)]
    for name, value in (("--by", options.by), ("--values", options.values), ("--scale", options.scale)):
        words += [name, str(value)] if value else []
    return shlex.join([*words, *(word for each in options.of for word in ("--of", each))])
