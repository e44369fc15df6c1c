# SPDX-License-Identifier: LGPL-2.1-or-later
"""Draws a picture with matplotlib, which is an extra: `pip install 'gilk[plot]'`.

The same picture gives the same file: no dates, no random names. No window is opened, and no state of pyplot is changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gilk.errors import StoreError, UsageError
from gilk.outputs import replaceable, replacing
from gilk.render.plot import Picture, PlotKind, PlotLine

_SIZE = (10, 6)  # in inches
_DPI = 120
_FORMATS = ("png", "svg", "pdf")
_MOST_TICKS = 40
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None},
}


def check(path: Path) -> str:
    """The format according to a file's name. Raises UsageError `bad-picture`, and `no-matplotlib` if that is not
    installed.
    """
    made = path.suffix.removeprefix(".").lower()
    if made not in _FORMATS:
        raise UsageError("bad-picture", f"{path}: there is no format {path.suffix!r}", "it is .png, .svg or .pdf")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("no-matplotlib", "matplotlib is not installed", "pip install 'gilk[plot]'") from None
    return made


def save(picture: Picture, path: Path) -> None:
    """Draw a picture into a file. Raises UsageError as `check`, StoreError `cannot-write`."""
    made = check(path)
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "gilk", "svg.fonttype": "none"}):
        try:
            with replacing(path) if replaceable(path) else path.open("wb") as file:
                draw(picture).savefig(file, format=made, dpi=_DPI, metadata=_METADATA[made])
        except OSError as error:
            raise StoreError("cannot-write", f"{path}: {error.strerror}") from None


def draw(picture: Picture) -> Any:
    """The picture as a matplotlib Figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    for number, line in enumerate(picture.lines):
        _line(axes, picture, line, f"C{number % 10}", number)
    _axes(axes, picture)
    if len(picture.lines) > 1 or picture.kind is PlotKind.SPECTRUM:
        figure.legend(loc="outside right upper", fontsize="small", markerscale=2)
    if picture.notes:
        figure.supxlabel("\n".join(map(_plain, picture.notes)), fontsize="x-small", color="0.35", x=0.01, ha="left")
    return figure


def _line(axes: Any, picture: Picture, line: PlotLine, colour: str, number: int) -> None:
    options = {"label": _plain(line.name), "color": colour}
    if picture.kind is PlotKind.STEP:
        axes.step(line.x, line.y, where="post", linewidth=0.8, marker=".", markersize=3, **options)
    elif picture.kind is PlotKind.SCATTER:
        axes.plot(line.x, line.y, linestyle="none", marker="ox+^sdv*"[number % 8], markersize=3, **options)
    elif picture.kind is PlotKind.HISTOGRAM:
        axes.stairs(line.y, line.x, fill=len(picture.lines) == 1, linewidth=1.2, **options)
    else:
        axes.plot(line.x, line.y, linewidth=0.6, alpha=0.8, **options)  # many of these lines are like bands, and cross


def _axes(axes: Any, picture: Picture) -> None:
    axes.set_title(_plain(picture.title), fontsize="medium")
    axes.set_xlabel(picture.x_label)
    axes.set_ylabel(picture.y_label)
    if picture.x_log:
        axes.set_xscale("log")
    if picture.y_log:
        axes.set_yscale("log")
    if picture.ticks:
        every = -(-len(picture.ticks) // _MOST_TICKS)
        axes.set_yticks(range(0, len(picture.ticks), every), [_plain(t) for t in picture.ticks[::every]], fontsize=7)
    axes.set_axisbelow(True)
    axes.grid(True, linewidth=0.3)


def _plain(text: str) -> str:
    """The text without mathematics and control characters: names come from the target, and a dollar sign is only
    itself.
    """
    printable = "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)
    return printable.replace("$", r"\$")
