# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pictures: their numbers agree with known samples and with the calls of matplotlib; pixels are not compared."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gilk.errors import GilkError, StoreError, UsageError
from gilk.render import plot, plot_draw
from gilk.render.plot import Picture, PlotKind, PlotOptions, picture
from gilk.render.plot_data import By, Values
from gilk.trace.about import About, Tally
from gilk.trace.clock import Clock
from gilk.trace.probes import ProbeRow
from gilk.trace.reading import Trace, read
from gilk.trace.samples import schema
from gilk.trace.store import Writer
from tests.seldom import seldom

PROBES = (
    ProbeRow(1, "libc.so.6:read:entry", "read", "libc.so.6", "time-entry"),
    ProbeRow(2, "libc.so.6:read:return", "read", "libc.so.6", "time-return"),
    ProbeRow(3, "p:f:@2:pre", "f", "p", "stamp"),
    ProbeRow(4, "p:f:@10:pre", "f", "p", "stamp"),
    ProbeRow(5, "p:g:entry", "g", "p", "other"),
    ProbeRow(0, "p:h:entry", "h", "p", "count", 0),
)
MS = 1_000_000
CALLS = [(1 * MS, 2 * MS), (5 * MS, 100), (7 * MS, 3 * MS), (20 * MS, 1 * MS)]  # start, duration
STEPS = [(30 * MS, 3), (31 * MS, 4), (32 * MS, 4), (33 * MS, 4), (36 * MS, 3), (36 * MS, 4)]
LOGGED = [(40 * MS, -5), (41 * MS, 7)]


def rows() -> Iterable[dict[str, Any]]:
    """Samples: cat (pid 10) makes the first and third calls, sort (pid 20) all others, in two threads."""
    for n, (start, duration) in enumerate(CALLS):
        yield sample(start, 10 if n in (0, 2) else 20, 1, "time-entry", sp=n + 1)
        yield sample(start + duration, 10 if n in (0, 2) else 20, 2, "time-return", sp=n + 1)
    for time, iid in STEPS:
        yield sample(time, 20, iid, "stamp")
    for time, value in LOGGED:
        yield sample(time, 20, 5, "integer", value=value, tid=21)
    yield {"time": 41 * MS, "pid": 20, "tid": 21, "thread": "worker", "kind": "gap", "sp": 0}


def sample(time: int, pid: int, iid: int, kind: str, *, sp: int = 0, value: int | None = None, tid: int = 0) -> Any:
    probe = next(each for each in PROBES if each.iid == iid)
    thread = "worker" if tid else {10: "cat", 20: "sort"}[pid]
    names = {"thread": thread, "point": probe.point, "function": probe.function, "kind": kind}
    return {"time": time, "pid": pid, "tid": tid or pid, "sp": sp, "value": value, **names}


def stored(path: Path, samples: Iterable[dict[str, Any]], tally: Tally) -> Trace:
    about = About("box", ("cat", "x$y"), (10, 20), 0, 0, Clock(1, 2, 2.9), PROBES)
    writer = Writer(path, schema({0}), about)
    writer.write(pa.Table.from_pylist(sorted(samples, key=lambda row: row["time"]), schema({0})))
    return read(writer.close(tally))


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return stored(tmp_path_factory.mktemp("plot") / "a.parquet", rows(), Tally(partial=False))


def numbers(made: Picture) -> dict[str, list[tuple[float, float]]]:
    return {
        line.name: [(round(x, 6), round(y, 6)) for x, y in zip(line.x, line.y, strict=False)] for line in made.lines
    }


def test_scatter_plots_durations_over_time_by_process(trace: Trace) -> None:
    made = picture(trace, PlotOptions(PlotKind.SCATTER))
    assert numbers(made) == {"cat": [(1.0, 2.0), (7.0, 3.0)], "sort": [(5.0, 0.0001), (20.0, 1.0)]}
    assert (made.x_label, made.y_label) == ("time in ms", "duration in ms")
    assert made.y_log and not made.x_log
    assert made.notes == ()


def test_scatter_plots_only_the_chosen_points(trace: Trace) -> None:
    made = picture(trace, PlotOptions(PlotKind.SCATTER, of=("p:f:@*",)))
    assert made.y_label == "events so far"
    assert numbers(made) == {"sort": [(float(n), float(m)) for m, n in enumerate((30, 31, 32, 33, 36, 36), 1)]}
    assert made.x_label == "time in ms"


def test_short_spans_late_in_a_trace_have_an_origin_of_their_own(trace: Trace) -> None:
    made = picture(
        trace,
        PlotOptions(PlotKind.STEP, of=("f",), sql="SELECT time * 1000 AS time, point FROM samples WHERE pid = 20"),
    )
    assert made.x_label == "time in s"
    made = picture(trace, PlotOptions(PlotKind.STEP, sql="SELECT time + 70000000000 AS time, point FROM samples"))
    assert made.x_label == "time in ms from 70.001 s on"
    assert made.lines[0].x[0] == 0


def test_scatter_plots_logged_values(trace: Trace) -> None:
    made = picture(trace, PlotOptions(PlotKind.SCATTER, of=("g",), by=By.THREAD))
    assert [y for _, y in numbers(made)["worker 21"]] == [-5.0, 7.0]
    assert made.y_label == "value logged"
    made = picture(trace, PlotOptions(PlotKind.SCATTER, of=("g",), scale="log"))
    assert [y for _, y in numbers(made)["sort"]] == [7.0]
    assert made.notes == ("1 value of 0 or less: no place on a logarithmic axis",)


def test_step_plots_have_points_in_natural_order_and_only_changes(trace: Trace) -> None:
    made = picture(trace, PlotOptions(PlotKind.STEP, of=("f",)))
    assert made.ticks == ("p:f:@2:pre", "p:f:@10:pre")
    (line,) = made.lines
    assert line.y.tolist() == [0, 1, 1, 0, 1]  # the middle one of three at @10 goes
    assert line.whole == 6
    assert np.allclose(np.diff(line.x), [1, 2, 3, 0])


def test_returns_are_not_plotted_as_events(trace: Trace) -> None:
    made = picture(trace, PlotOptions(PlotKind.STEP, of=("read",)))
    assert made.ticks == ("libc.so.6:read:entry",)


def test_histogram_of_durations(trace: Trace) -> None:
    made = picture(trace, PlotOptions(PlotKind.HISTOGRAM))
    (line,) = made.lines
    assert (line.name, line.y.sum(), len(line.x)) == ("read", 4, len(line.y) + 1)
    assert made.x_label == "duration in ms" or made.x_label == "duration in µs"
    assert made.x_log
    at = np.flatnonzero(line.y)
    scale = 1e-6 if made.x_label.endswith("ms") else 1e-3
    for _, duration in CALLS:
        assert any(line.x[n] <= duration * scale * (1 + 1e-9) and duration * scale <= line.x[n + 1] for n in at)


def test_histogram_of_intervals_says_how_many_are_zero(trace: Trace) -> None:
    made = picture(trace, PlotOptions(PlotKind.HISTOGRAM, of=("f",), values=Values.INTERVAL))
    assert made.lines[0].y.sum() == 4
    assert made.notes == ("1 value of 0 or less: no place on a logarithmic axis, --scale linear has it",)
    made = picture(trace, PlotOptions(PlotKind.HISTOGRAM, of=("f",), values=Values.INTERVAL, scale="linear"))
    assert made.lines[0].y.sum() == 5
    assert made.x_label == "time to the next in ms"


def test_intervals_are_within_a_series(trace: Trace) -> None:
    made = picture(
        trace, PlotOptions(PlotKind.HISTOGRAM, of=("read",), values=Values.INTERVAL, by=By.PROCESS, scale="linear")
    )
    ends = {line.name: [line.x[n] for n in np.flatnonzero(line.y)] for line in made.lines}
    assert {name: len(those) for name, those in ends.items()} == {"cat": 1, "sort": 1}  # 6 ms and 15 ms
    assert ends["cat"][0] == pytest.approx(6, abs=0.2)
    assert ends["sort"][0] == pytest.approx(15, abs=0.2)


def test_the_result_of_a_query_is_plotted(trace: Trace) -> None:
    sql = "SELECT start AS time, duration, 'every ' || depth AS series FROM calls ORDER BY start DESC"
    made = picture(trace, PlotOptions(PlotKind.SCATTER, sql=sql))
    assert list(numbers(made)) == ["every 0"]
    assert [x for x, _ in numbers(made)["every 0"]] == [1, 5, 7, 20]
    made = picture(trace, PlotOptions(PlotKind.STEP, sql="SELECT time, point FROM samples WHERE function = 'f'"))
    assert made.ticks == ("p:f:@2:pre", "p:f:@10:pre")


def test_times_of_an_experiment_count_from_the_start_of_its_targets(trace: Trace) -> None:
    experiment = replace(trace, tally=Tally(partial=False, report={"experiment": {"began": 1 * MS}}))
    assert [x for x, _ in numbers(picture(experiment, PlotOptions(PlotKind.SCATTER)))["cat"]] == [0.0, 6.0]


def test_the_spectrum_of_a_period_has_a_peak(tmp_path: Path) -> None:
    """A sample every 20 ms is a peak at 50 Hz."""
    many = [sample(n * 20 * MS, 20, 3, "stamp") for n in range(2000)]
    made = picture(stored(tmp_path / "a.parquet", many, Tally(partial=False)), PlotOptions(PlotKind.SPECTRUM, bin=MS))
    (line,) = made.lines
    assert line.name.startswith("sort: f^")
    peaks = line.x[line.y > 0.1 * line.y.max()]
    assert np.allclose(peaks, 50 * np.round(peaks / 50), atol=0.5)
    assert line.x[0] < 1 and line.x[-1] == pytest.approx(500, rel=0.01)
    assert made.x_label == "frequency in Hz"
    assert made.notes == (
        "arrivals in bins of 1 ms; averaged over overlapping segments under a Hann window",
        "f^x: the power law that is closest to the lower half",
    )


@pytest.mark.parametrize(
    ("options", "slug"),
    [
        (PlotOptions(PlotKind.SCATTER, of=("nothing",)), "nothing-to-plot"),
        (PlotOptions(PlotKind.SCATTER, of=("h",)), "nothing-to-plot"),
        (PlotOptions(PlotKind.HISTOGRAM, of=("f",), values=Values.DURATION), "nothing-to-plot"),
        (PlotOptions(PlotKind.HISTOGRAM, of=("f",), values=Values.VALUE), "nothing-to-plot"),
        (PlotOptions(PlotKind.HISTOGRAM, sql="SELECT 1 AS time, 0 AS duration"), "nothing-to-plot"),
        (PlotOptions(PlotKind.HISTOGRAM, sql="SELECT 1 AS time"), "nothing-to-plot"),
        (PlotOptions(PlotKind.SPECTRUM, of=("g",), bin=MS), "nothing-to-plot"),
        (PlotOptions(PlotKind.STEP, sql="SELECT 1 AS time"), "nothing-to-plot"),
        (PlotOptions(PlotKind.STEP, sql="SELECT 1 AS x"), "nothing-to-plot"),
        (PlotOptions(PlotKind.STEP, sql="SELECT 1.5 AS time"), "nothing-to-plot"),
        (PlotOptions(PlotKind.STEP, sql="SELECT time FROM samples WHERE false"), "nothing-to-plot"),
        (PlotOptions(PlotKind.STEP, sql="SELECT nonsense"), "bad-query"),
    ],
)
def test_impossible_plots_are_refused(trace: Trace, options: PlotOptions, slug: str) -> None:
    with pytest.raises(UsageError) as caught:
        picture(trace, options)
    assert caught.value.slug == slug


def test_a_plot_says_what_it_leaves_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot, "_MOST_MARKS", 100)
    monkeypatch.setattr(plot, "_MOST_LINES", 1)
    many = [sample(n, 20, 3 + n % 2, "stamp") for n in range(1000)] + [sample(5, 10, 3, "stamp")]
    file = stored(tmp_path / "a.parquet", many, Tally(drops=3, lost=1, partial=True))
    made = picture(file, PlotOptions(PlotKind.SCATTER))
    assert [len(line.y) for line in made.lines] == [101]  # every tenth, and the greatest
    assert made.notes == (
        "3 records dropped and 1 hit lost: not in here",
        "the run did not end in order: the last moments may be missing",
        "1 more series, with 1 event in all, are left out; --of and --by choose",
        "sort: 101 of 1000 events are drawn, evenly chosen",
    )
    made = picture(file, PlotOptions(PlotKind.STEP, by=By.PROCESS))
    assert len(made.lines[0].y) == 100
    assert "sort: only the first 100 of 1000 steps; a query can choose others" in made.notes


# What is drawn.


@pytest.mark.parametrize("kind", [PlotKind.SCATTER, PlotKind.STEP, PlotKind.HISTOGRAM])
def test_the_matplotlib_figure_has_the_numbers_of_the_picture(trace: Trace, kind: PlotKind) -> None:
    made = picture(trace, PlotOptions(kind))
    axes = plot_draw.draw(made).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == (made.x_label, made.y_label)
    assert axes.get_yscale() == ("log" if made.y_log else "linear")
    assert axes.get_xscale() == ("log" if made.x_log else "linear")
    if kind is PlotKind.HISTOGRAM:
        drawn = [(patch.get_data().edges.tolist(), patch.get_data().values.tolist()) for patch in axes.patches]
    else:
        drawn = [(line.get_xdata().tolist(), line.get_ydata().tolist()) for line in axes.lines]
    assert drawn == [(line.x.tolist(), line.y.tolist()) for line in made.lines]
    if made.ticks:
        assert [label.get_text() for label in axes.get_yticklabels()] == list(made.ticks)


def test_names_from_the_target_are_escaped(trace: Trace) -> None:
    made = replace(picture(trace, PlotOptions(PlotKind.SCATTER)), title="a$b$\x1b[31m", notes=("n$1",))
    figure = plot_draw.draw(made)
    assert figure.axes[0].get_title() == r"a\$b\$?[31m"
    assert figure.get_supxlabel() == r"n\$1"


def _is_png(path: Path) -> None:
    from PIL import Image

    with Image.open(path) as image:
        image.load()
        assert image.format == "PNG" and image.size == (1200, 720)


def _is_svg(path: Path) -> None:
    assert ElementTree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert "duration in ms" in path.read_text()


def _is_pdf(path: Path) -> None:
    assert path.read_bytes().startswith(b"%PDF-")


@pytest.mark.parametrize(("suffix", "check"), seldom([("png", _is_png), ("svg", _is_svg), ("pdf", _is_pdf)], 2))
def test_picture_files_have_their_format_and_are_reproducible(
    trace: Trace, tmp_path: Path, suffix: str, check: Callable[[Path], None]
) -> None:
    first, second = tmp_path / f"1.{suffix}", tmp_path / f"2.{suffix}"
    for path in (first, second):
        plot_draw.save(picture(trace, PlotOptions(PlotKind.SCATTER)), path)
    check(first)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("name", ["a.gif", "png", "a.png.txt", ""])
def test_unknown_picture_formats_are_refused(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        plot_draw.check(Path(name))
    assert caught.value.slug == "bad-picture"


def test_a_picture_that_cannot_be_written_is_an_error(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        plot_draw.save(picture(trace, PlotOptions(PlotKind.SCATTER)), tmp_path / "none" / "a.png")
    assert caught.value.slug == "cannot-write"


def test_the_error_without_matplotlib_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(GilkError) as caught:
        plot_draw.check(Path("a.png"))
    assert caught.value.slug == "no-matplotlib"
    assert "gilk[plot]" in caught.value.hint


def test_options_of_gilk_plot(trace: Trace, gilk_on_path: dict[str, str]) -> None:
    def gilk(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["gilk", "plot", str(trace.path), *words]
        return subprocess.run(command, env=gilk_on_path, capture_output=True, text=True)

    done = gilk("--kind", "scatter")
    assert (done.returncode, done.stdout.strip()) == (0, str(trace.path.with_name("a-scatter.png"))), done.stderr
    _is_png(trace.path.with_name("a-scatter.png"))
    assert gilk("--kind", "spectrum", "--bin", "1 week").returncode == 2
    assert gilk("--kind", "pie").returncode == 2
