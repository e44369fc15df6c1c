# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counts of tactics: how each pre-point and each post-point of some functions would be spliced.

The two sides are planned apart, as if only points of that side were wanted. If there are two processors, a child
process plans the post-points: planning takes twice as long as analysis. The plans have no code, which would take
most of the time and has no influence on the tactics, but for a pun now and then (patches lie a little differently).
"""

from __future__ import annotations

import contextlib
import os
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gilk import own_threads
from gilk.analysis.analysis import Analysis
from gilk.analysis.model import Block, Function
from gilk.image.model import FunctionSpan
from gilk.splice import points
from gilk.splice.allocator import PAGE, Arena
from gilk.splice.figures import POST, PRE
from gilk.splice.instrument import Count, Instrument
from gilk.splice.patch_context import PatchContext
from gilk.splice.plan import FunctionPlan, Plan, Want
from gilk.splice.planner import plan
from gilk.splice.tactics.table import OUTCOMES
from gilk.targets.apart import fork
from gilk.values import dataclass

#: Called with the name of the step, how much of it is done, and how much there is.
Progress = Callable[[str, int, int], None]
Counts = NDArray[np.int32]

_CHUNK: Final = 64  # functions planned between two reports
_WORTH_A_CHILD: Final = 2000  # blocks from which on a child process pays
_COLUMN: Final = {name: column for column, name in enumerate(OUTCOMES)}
_ARENA_RESERVE: Final = 16 << 20  # bytes; more than the patches of a chunk need


@dataclass(frozen=True, slots=True)
class Planning:
    """The planner for a kind of target, and the instrument to plan for: a counter, made from the number of a block."""

    plan: Callable[[PatchContext, Iterable[tuple[Function, list[Want]]]], Plan]
    counter: Callable[[int], Instrument]


PROCESS: Final = Planning(plan, Count)


def analysed(analysis: Analysis, spans: Sequence[FunctionSpan], progress: Progress) -> list[Function]:
    """The functions with their blocks."""
    functions = []
    for number, span in enumerate(spans):
        if number % _CHUNK == 0:
            progress("analysing", number, len(spans))
        functions.append(analysis.function(span))
    return functions


def outcomes(
    analysis: Analysis,
    ground: Callable[[], PatchContext],
    functions: Sequence[Function],
    progress: Progress,
    planning: Planning = PROCESS,
) -> tuple[Counts, Counts]:
    """The counts of outcomes of pre-points and of post-points, each with a row per function and a column per name of
    OUTCOMES.

    ``ground``: makes new ground to plan on.
    """

    def side(which: int, report: Progress) -> Counts:
        return _side(analysis, ground(), functions, which, report, planning)

    if not _may_fork(functions):
        return side(PRE, progress), side(POST, progress)
    with _child(lambda: side(POST, _while_parent_lives()).tobytes()) as result:
        pre = side(PRE, progress)
        data = result()
    shape = (len(functions), len(OUTCOMES))
    if len(data) != pre.nbytes:  # the child was killed, or ran out of memory
        return pre, side(POST, progress)
    return pre, np.frombuffer(data, np.int32).reshape(shape)


def _side(
    analysis: Analysis,
    ground: PatchContext,
    functions: Sequence[Function],
    which: int,
    progress: Progress,
    planning: Planning,
) -> Counts:
    """The counts of one side. Functions are planned in chunks from the highest address down, the planner's own
    order."""
    counts = np.zeros((len(functions), len(OUTCOMES)), np.int32)
    order = sorted(range(len(functions)), key=lambda i: -functions[i].start)
    for begin in range(0, len(order), _CHUNK):
        progress("planning", begin, len(order))
        chunk = order[begin : begin + _CHUNK]
        _make_room(ground)
        wanted = [(functions[i], wants(analysis, functions[i], which, planning)) for i in chunk]
        made = planning.plan(ground, wanted)
        for i, function_plan in zip(chunk, made.functions, strict=True):
            _tally(counts[i], function_plan)
    return counts


def wants(analysis: Analysis, function: Function, which: int, planning: Planning = PROCESS) -> list[Want]:
    """A counter at each point of one side; its key is the block's number."""
    return [_want(analysis, function, block, which, planning) for block in function.blocks]


def _want(analysis: Analysis, function: Function, block: Block, which: int, planning: Planning) -> Want:
    point = points.pre("", function, block) if which == PRE else points.post("", analysis, function, block)
    return Want(point.address, point.after, planning.counter(block.index), block.index)


def _make_room(ground: PatchContext) -> None:
    """Start a nearly full arena anew, since nothing is written into it."""
    arena = ground.arena
    if arena.allocate(0) > arena.base + arena.size - _ARENA_RESERVE:
        ground.arena = Arena(arena.base, arena.size, arena.offset, PAGE)


def _tally(counts: Counts, made: FunctionPlan) -> None:
    for tactic in made.tactics.values():
        counts[_COLUMN[tactic]] += 1
    for key, refusal in made.refusals.items():
        if key not in made.tactics:
            counts[_COLUMN[refusal]] += 1


def _may_fork(functions: Sequence[Function]) -> bool:
    """Whether a child process pays and is safe: a child would inherit locks that other threads hold."""
    alone = own_threads.may_fork() and len(os.sched_getaffinity(0)) > 1
    return alone and sum(len(function.blocks) for function in functions) >= _WORTH_A_CHILD


def _while_parent_lives() -> Progress:
    parent = os.getppid()

    def check(what: str, done: int, total: int) -> None:
        if os.getppid() != parent:
            os._exit(1)

    return check


@contextlib.contextmanager
def _child(work: Callable[[], bytes]) -> Iterator[Callable[[], bytes]]:
    """Run ``work`` in a forked child. The context's value is a function that waits for the result; it returns less, or
    b'', if the child failed."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # numpy's own threads hold no lock of ours
        pid = fork()
    if pid == 0:
        os.close(reading)
        _run(work, writing)
    os.close(writing)
    try:
        with open(reading, "rb") as channel:
            yield channel.read
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _run(work: Callable[[], bytes], writing: int) -> None:
    """Do the child's work. Never returns, so that inherited objects, such as buffers of files, are left alone."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        with open(writing, "wb") as channel:
            channel.write(work())
    finally:
        os._exit(0)
