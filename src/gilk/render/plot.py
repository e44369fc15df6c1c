# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pictures as values: lines of numbers, axes with units, and notes that say what a picture does not show.

`picture` makes a picture of a file of samples; render/plot_draw.py draws it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gilk.errors import UsageError
from gilk.render.plot_data import By, PlotEvents, Values, answer, began, events
from gilk.render.text import plural
from gilk.trace import series
from gilk.trace.reading import Trace
from gilk.values import dataclass

_MOST_LINES = 12
_MOST_MARKS = 20_000  # the most marks of a line; more are slow to draw, and lie on one another
_MOST_BINS = 1 << 17  # the most bins of a spectrum
_PER_DECADE = 10
_LONGEST_TITLE = 80
_LINEAR_BINS = 60
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))

Floats = NDArray[np.float64]


class PlotKind(StrEnum):
    STEP = "step"
    SCATTER = "scatter"
    HISTOGRAM = "histogram"
    SPECTRUM = "spectrum"


@dataclass(frozen=True, slots=True)
class PlotOptions:
    """The options of a plot. ``of`` are globs for points or functions, () for all. ``scale`` '' and ``bin`` 0 choose a
    suitable value; ``bin`` is in ns.
    """

    kind: PlotKind
    of: tuple[str, ...] = ()
    by: By | None = None
    values: Values | None = None
    scale: str = ""
    bin: int = 0
    sql: str = ""
    title: str = ""


@dataclass(frozen=True, eq=False)
class PlotLine:
    """One series, which stands for ``whole`` events. In a histogram, ``x`` are the edges of bins, one more
    than ``y``.
    """

    name: str
    x: Floats
    y: Floats
    whole: int


@dataclass(frozen=True, eq=False)
class Picture:
    """The picture. ``ticks`` name the values 0, 1, ... of the y axis if they are names. ``notes`` are lines to show
    below.
    """

    kind: PlotKind
    title: str
    x_label: str
    y_label: str
    lines: tuple[PlotLine, ...]
    x_log: bool = False
    y_log: bool = False
    ticks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        lines = [{"name": line.name, "events": line.whole, "drawn": len(line.y)} for line in self.lines]
        return {"kind": str(self.kind), "title": self.title, "series": lines, "notes": list(self.notes)}


_USUALLY_BY = {
    PlotKind.STEP: By.THREAD,
    PlotKind.SCATTER: By.PROCESS,
    PlotKind.HISTOGRAM: By.FUNCTION,
    PlotKind.SPECTRUM: By.PROCESS,
}


def picture(trace: Trace, options: PlotOptions) -> Picture:
    """The picture of a file of samples. Raises UsageError `nothing-to-plot`, `bad-query`."""
    by = options.by or _USUALLY_BY[options.kind]
    values = Values.NUMBER if options.kind in (PlotKind.STEP, PlotKind.SPECTRUM) else options.values
    if values is Values.INTERVAL:
        values = Values.NUMBER
    found = answer(trace, options.sql) if options.sql else events(trace, options.of, by, values)
    found = replace(found, times=found.times - began(trace))
    if options.kind is PlotKind.HISTOGRAM and (found.kind is Values.NUMBER or options.values is Values.INTERVAL):
        found = _as_intervals(found)
    makers = {
        PlotKind.STEP: _steps,
        PlotKind.SCATTER: _scatter,
        PlotKind.HISTOGRAM: _histogram,
        PlotKind.SPECTRUM: _spectrum,
    }
    notes = [*_losses(trace), *_left_out(found)]
    return makers[options.kind](found, options, options.title or _title(trace, options), notes)


def _steps(found: PlotEvents, options: PlotOptions, title: str, notes: list[str]) -> Picture:
    if found.points is None:
        raise UsageError("nothing-to-plot", "a step plot needs the column `point`, which the answer does not have")
    codes, names = found.points
    order = sorted(range(len(names)), key=lambda n: _natural(names[n]))
    place = np.empty(len(names), np.int64)
    place[order] = np.arange(len(names))
    heights = place[codes]
    lines = []
    for name, mask in _series(found):
        times, values = found.times[mask] / 1e9, heights[mask]
        kept = series.changes(values)
        if len(kept) > _MOST_MARKS:
            notes.append(f"{name}: only the first {_MOST_MARKS} of {len(kept)} steps; a query can choose others")
            kept = kept[:_MOST_MARKS]
        lines.append(PlotLine(name, times[kept], values[kept].astype(np.float64), len(values)))
    ticks = tuple(names[n] for n in order)
    lines, x_label = _times(lines)
    return Picture(PlotKind.STEP, title, x_label, "point", tuple(lines), ticks=ticks, notes=tuple(notes))


def _scatter(found: PlotEvents, options: PlotOptions, title: str, notes: list[str]) -> Picture:
    timed = found.kind is Values.DURATION
    log = options.scale == "log" or (timed and options.scale != "linear")
    if log and (found.values <= 0).any():
        notes.append(f"{plural(int((found.values <= 0).sum()), 'value')} of 0 or less: no place on a logarithmic axis")
    lines = []
    for name, mask in _series(found):
        shown = mask & (found.values > 0) if log else mask
        times, values = found.times[shown] / 1e9, found.values[shown]
        kept = series.thinned(values, _MOST_MARKS)
        if len(kept) < len(values):
            notes.append(f"{name}: {len(kept)} of {len(values)} events are drawn, evenly chosen")
        lines.append(PlotLine(name, times[kept], values[kept], int(mask.sum())))
    y_label = "value logged" if found.kind is Values.VALUE else "events so far"
    if timed:
        lines, unit = _in_unit(lines, "y")
        y_label = f"duration in {unit}"
    lines, x_label = _times(lines)
    return Picture(PlotKind.SCATTER, title, x_label, y_label, tuple(lines), y_log=log, notes=tuple(notes))


def _histogram(found: PlotEvents, options: PlotOptions, title: str, notes: list[str]) -> Picture:
    log = options.scale != "linear" and (options.scale == "log" or found.kind is not Values.VALUE)
    values = found.values
    if log:
        zeros = int((values <= 0).sum())
        if zeros:
            notes.append(
                f"{plural(zeros, 'value')} of 0 or less: no place on a logarithmic axis, --scale linear has it"
            )
        if zeros == len(values):
            raise UsageError("nothing-to-plot", "no value is above 0", "use --scale linear")
        above = values[values > 0]
        edges = series.logarithmic_bins(float(above.min()), float(above.max()), _PER_DECADE)
    else:
        edges = np.histogram_bin_edges(values, _LINEAR_BINS)
    lines = [
        PlotLine(n, edges, np.histogram(values[m], edges)[0].astype(np.float64), int(m.sum()))
        for n, m in _series(found)
    ]
    x_label = "value logged"
    if found.kind is not Values.VALUE:
        lines, unit = _in_unit(lines, "x")
        x_label = ("duration" if found.kind is Values.DURATION else "time to the next") + f" in {unit}"
    return Picture(PlotKind.HISTOGRAM, title, x_label, "number", tuple(lines), x_log=log, notes=tuple(notes))


def _spectrum(found: PlotEvents, options: PlotOptions, title: str, notes: list[str]) -> Picture:
    start, end = int(found.times[0]), int(found.times[-1]) + 1
    width = options.bin or series.round_width(end - start, _MOST_BINS)
    lines = []
    for name, mask in _series(found):
        frequencies, power = series.spectrum(found.times[mask], width, start, end)
        slope = series.slope(frequencies, power)
        if not len(power):
            raise UsageError(
                "nothing-to-plot", f"{(end - start) / 1e9:g} s have too few bins of {width} ns for a spectrum"
            )
        lines.append(
            PlotLine(f"{name}: f^{slope:.2f}" if slope is not None else name, frequencies, power, int(mask.sum()))
        )
    notes.append(f"arrivals in bins of {_time(width)}; averaged over overlapping segments under a Hann window")
    if any(": f^" in line.name for line in lines):
        notes.append("f^x: the power law that is closest to the lower half")
    linear = options.scale == "linear"
    return Picture(
        PlotKind.SPECTRUM, title, "frequency in Hz", "power density in (1/s)²/Hz", tuple(lines),
        x_log=not linear, y_log=not linear, notes=tuple(notes),
    )  # fmt: skip


def _as_intervals(found: PlotEvents) -> PlotEvents:
    """The events with the time to the next one of their series as values."""
    times, codes, values = [], [], []
    for code in range(len(found.names)):
        own = found.times[found.of(code)]
        times.append(own[1:])
        codes.append(np.full(max(len(own) - 1, 0), code, np.int64))
        values.append(series.intervals(own).astype(np.float64))
    if not sum(map(len, times)):
        raise UsageError("nothing-to-plot", "no series has two events, so there is no interval")
    made = (np.concatenate(times), np.concatenate(codes))
    return PlotEvents(*made, found.names, np.concatenate(values), Values.INTERVAL)


def _series(found: PlotEvents) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    for code, name in enumerate(found.names[:_MOST_LINES]):
        yield name, found.of(code)


def _left_out(found: PlotEvents) -> Iterator[str]:
    if len(found.names) > _MOST_LINES:
        rest = int((found.codes >= _MOST_LINES).sum())
        number = len(found.names) - _MOST_LINES
        yield f"{number} more series, with {plural(rest, 'event')} in all, are left out; --of and --by choose"


def _losses(trace: Trace) -> Iterator[str]:
    if trace.tally.drops or trace.tally.lost:
        yield f"{plural(trace.tally.drops, 'record')} dropped and {plural(trace.tally.lost, 'hit')} lost: not in here"
    if trace.tally.partial:
        yield "the run did not end in order: the last moments may be missing"


def _in_unit(lines: list[PlotLine], axis: str) -> tuple[list[PlotLine], str]:
    """The lines with nanoseconds converted to the largest unit in which the median is at least one, and that unit."""
    numbers = np.concatenate([getattr(line, axis) for line in lines])
    middle = float(np.median(numbers)) / 1e9 if len(numbers) else 1.0
    scale, unit = next((each for each in _UNITS if middle >= each[0]), _UNITS[-1])
    factor = 1e-9 / scale
    changed = [replace(each, x=each.x * factor) if axis == "x" else replace(each, y=each.y * factor) for each in lines]
    return changed, unit


def _times(lines: list[PlotLine]) -> tuple[list[PlotLine], str]:
    """The lines with seconds converted to a unit that suits their span, counted from the first if that is far from 0,
    and the label of the axis.
    """
    every = np.concatenate([line.x for line in lines]) if lines else np.zeros(0)
    if not len(every):
        return lines, "time in s"
    low, span = float(every.min()), float(np.ptp(every))
    scale, unit = next((each for each in _UNITS if span >= each[0]), _UNITS[0])
    start = low if span < 0.05 * abs(low) else 0.0
    label = f"time in {unit}" + (f" from {start:.9g} s on" if start else "")
    return [replace(line, x=(line.x - start) / scale) for line in lines], label


def _time(width: int) -> str:
    scale, unit = next(each for each in _UNITS if width / 1e9 >= each[0] * 0.999)
    return f"{width / 1e9 / scale:g} {unit}"


def _title(trace: Trace, options: PlotOptions) -> str:
    what = ", ".join(options.of) or options.sql or "all points"
    whole = f"{what}: {' '.join(trace.about.command)}" if trace.about.command else what
    return whole if len(whole) <= _LONGEST_TITLE else whole[: _LONGEST_TITLE - 1] + "…"


def _natural(name: str) -> list[tuple[int, str]]:
    """The sort key of a name that puts @2 before @10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
