# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stacks that were counted: as text, as lines for flame graph programs, and as a flame graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from gilk.render.flame import DEEPEST, FLAME_WIDTH, NARROWEST, FlameBar, colour_of, picture
from gilk.render.names import readable_in
from gilk.render.text import cell, plural
from gilk.trace.stacks import CountedStack, by_calls, by_path

_SHOWN = 10  # in stacks
_LINES = 3  # the most lines that a bar names


def to_text(stacks: Sequence[CountedStack]) -> str:
    """The stacks with the highest counts, a line for each frame; the others are only counted. '' if there are none."""
    text = ""
    for stack in stacks[:_SHOWN]:
        text += f"{plural(stack.count, 'time')} at {readable_in(stack.point)}\n"
        text += "".join(f"    {_frame(*each)}\n" for each in zip_longest(stack.frames, stack.lines, fillvalue=""))
    more = stacks[_SHOWN:]
    if more:
        text += f"and {plural(len(more), 'stack')} more, met {plural(sum(stack.count for stack in more), 'time')}\n"
    return text


def _frame(frame: str, line: str) -> str:
    return cell(frame) + (f" ({cell(line)})" if line else "")


def folded(stacks: Iterable[CountedStack]) -> Iterator[str]:
    """Lines `function;function COUNT`, the outermost function first. A semicolon in a name becomes a colon."""
    for path, count in by_path(stacks).items():
        yield ";".join(cell(frame).replace(";", ":") or "?" for frame in path) + f" {count}\n"


def flame(stacks: Iterable[CountedStack], title: str) -> str:
    """The stacks as an SVG. The width of a bar is the number of stacks that have the function there; the lines of the
    source that the function was at in them are shown under the pointer.
    """
    paths = sorted(by_calls(stacks).items(), key=lambda item: ([frame for frame, _ in item[0]], item[0]))
    total = max(sum(count for _, count in paths), 1)
    bars = [_bar(*each, total) for each in _spans(paths)]
    return picture(title, f"all, {plural(total, 'stack')}", [bar for bar in bars if bar.width >= NARROWEST])


#: The frame, the depth, the number of stacks to the left of it, the number of stacks that have it, and the number of
#: those at each line.
_Span = tuple[str, int, int, int, Counter[str]]


def _spans(paths: Sequence[tuple[tuple[tuple[str, str], ...], int]]) -> Iterator[_Span]:
    """The bars, from paths that are sorted by their frames."""
    open_: list[tuple[str, int, Counter[str]]] = []  # the frames that have not ended yet, with where each began
    at = 0
    for path, count in [*paths, ((), 0)]:
        same = 0
        while same < min(len(open_), len(path)) and open_[same][0] == path[same][0]:
            same += 1
        while len(open_) > same:
            frame, began, met = open_.pop()
            yield frame, len(open_), began, at - began, met
        open_ += [(frame, at, Counter()) for frame, _ in path[same:DEEPEST]]
        for (_, _, met), (_, line) in zip(open_, path, strict=False):
            met[line] += count
        at += count


def _bar(frame: str, depth: int, first: int, count: int, met: Counter[str], total: int) -> FlameBar:
    image, _, function = frame.partition("`")
    x, width = FLAME_WIDTH * first / total, FLAME_WIDTH * count / total
    told = f"{image}: {plural(count, 'stack')} ({100 * count / total:.3g} %){_lines_met(met)}"
    return FlameBar(depth, x, width, function or frame, colour_of(function, image), told)


def _lines_met(met: Counter[str]) -> str:
    """The lines, those met most often first, as the end of a sentence; '' if none is known."""
    known = [line for line, _ in met.most_common() if line]
    more = [f"{plural(len(known) - _LINES, 'line')} more"] if len(known) > _LINES else []
    return f", at {', '.join([*known[:_LINES], *more])}" if known else ""
