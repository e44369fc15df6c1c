# SPDX-License-Identifier: LGPL-2.1-or-later
"""The timing of all functions of images, from what the cache keeps of each by its content.

The plans of an image that the cache has are only put at this process's addresses: nothing is analysed. Other images are
planned whole, several at a time, and their plans kept.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from gilk.errors import GilkError
from gilk.image.model import Image, Span
from gilk.session.follow import timing
from gilk.session.follow.prepared import Prepared
from gilk.splice.allocator import OutOfSpace
from gilk.splice.capture import Progress
from gilk.splice.portable import Array, Malformed, Portable
from gilk.target import wire
from gilk.target.base import Loaded, Target
from gilk.target.blank import Shape
from gilk.target.placing import place
from gilk.target.workspace import Workspace
from gilk.values import dataclass

Wanted = Callable[[Loaded, Span], bool]
#: What stands in the way of planning a whole image; it can still be planned function by function.
_TOO_MUCH = (OutOfSpace, OverflowError, MemoryError, GilkError)


@dataclass(frozen=True)
class Readied:
    """``left``: images for which there are no such plans, or no room for all of them."""

    prepared: tuple[Prepared, ...]
    left: tuple[Loaded, ...]


def ready(
    process: Target,
    workspace: Workspace,
    images: Iterable[Loaded],
    wanted: Wanted | None = None,
    first: int = 1,
    told: Progress = lambda done, of: None,
) -> Readied:
    """Have the timing of functions ready in a process: those that are ``wanted``, or all, but for cramped ones.

    ``first``: the iid of the first probe; those of the images follow one another. ``told``, from any thread, of
    functions planned and how many there are to plan, when something is not in the cache. Raises CompileError, and
    TargetError as the keeper does.
    """
    images = list(images)
    plans = _plans(process, images, workspace.shape, told)
    prepared, left = [], []
    for loaded in images:
        portable = plans.get(loaded.path)
        made = portable and _place(process.image(loaded.path), workspace, loaded, portable, wanted, first)
        if made:
            prepared.append(made)
            first += made.count
        else:
            left.append(loaded)
    return Readied(tuple(prepared), tuple(left))


# In the process.


def _place(
    image: Image, workspace: Workspace, loaded: Loaded, portable: Portable, wanted: Wanted | None, first: int
) -> Prepared | None:
    """None when there is no room."""
    spot = workspace.spot(loaded, len(portable.code))
    if spot is None:
        return None
    chosen = portable.entered() & ~portable.cramped()
    if wanted is not None:
        spans = {span.start: span for span in image.spans}
        starts = portable.unit_start[portable.unit_owner].tolist()
        chosen &= np.array([start in spans and wanted(loaded, spans[start]) for start in starts], np.bool_)
    placed = place(portable, spot, np.arange(first, first + portable.rows))
    lost = workspace.reserve(loaded, portable, placed, chosen)
    chosen &= ~_with_parts(portable, lost)
    number, batch = workspace.stage_placed(loaded, portable, placed, spot, chosen)
    return Prepared(loaded, portable, first, batch, number, chosen)


def _with_parts(portable: Portable, units: Array) -> Array:
    """A function of which one part is lost is lost."""
    lost = np.zeros(len(units), np.bool_)
    lost[portable.unit_owner[units]] = True
    found: Array = lost[portable.unit_owner]
    return found


# From the cache, or made.


def _plans(process: Target, images: list[Loaded], shape: Shape, told: Progress) -> dict[Path, Portable]:
    plans: dict[Path, Portable] = {}
    missing: dict[str, Loaded] = {}  # two files may be the same image
    keys = {}
    for loaded in images:
        image = process.image(loaded.path)
        known = timing.load(image, shape)
        if known is not None:
            plans[loaded.path] = known
        else:
            keys[loaded.path] = timing.key(image, shape)
            missing[keys[loaded.path]] = loaded
    made = _make(process, missing, shape, told)
    plans.update((path, made[key]) for path, key in keys.items() if key in made)
    return plans


def _make(process: Target, missing: dict[str, Loaded], shape: Shape, told: Progress) -> dict[str, Portable]:
    """The largest first, so that no processor waits at the end."""
    sizes = {key: len(process.image(loaded.path).spans) for key, loaded in missing.items()}
    order = sorted(missing, key=lambda key: -sizes[key])
    tell = _Sum(sizes, told)
    made: dict[str, Portable] = {}
    if len(order) < 2 or _processors() < 2:
        for key in order:
            with contextlib.suppress(*_TOO_MUCH):
                made[key] = timing.make(process.analysis(missing[key]), shape, tell.of(key))
        return made
    with ThreadPoolExecutor(min(_processors(), len(order))) as pool:
        jobs = {key: pool.submit(_make_apart, missing[key].path, key, shape, tell.of(key)) for key in order}
        found = {key: job.result() for key, job in jobs.items()}
    return {key: portable for key, portable in found.items() if portable is not None}


def _processors() -> int:
    return len(os.sched_getaffinity(0))


class _Sum:
    """Progress with several images, as one."""

    def __init__(self, sizes: dict[str, int], told: Progress) -> None:
        self._done = dict.fromkeys(sizes, 0)
        self._all = sum(sizes.values())
        self._told = told
        self._lock = threading.Lock()

    def of(self, key: str) -> Progress:
        def told(done: int, of: int) -> None:
            with self._lock:
                self._done[key] = done
                self._told(sum(self._done.values()), self._all)

        return told


def _make_apart(path: Path, key: str, shape: Shape, told: Progress) -> Portable | None:
    """Plan in a process of its own (repository_worker.py); None when there can be no such plans."""
    with _worker() as channel:
        try:
            wire.send(channel, (path, key, shape))
            while True:
                (word, *values), _ = wire.receive(channel)
                if word != "told":
                    return Portable.from_arrays(values[0]) if word == "made" else None
                told(*values)
        except (wire.Closed, Malformed):
            return None


@contextlib.contextmanager
def _worker() -> Iterator[socket.socket]:
    """A worker, gone when this ends."""
    mine, theirs = socket.socketpair()
    arguments = [sys.executable, "-P", "-m", "gilk.session.follow.repository_worker", str(theirs.fileno())]
    package = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    with mine, theirs:
        worker = subprocess.Popen(arguments, pass_fds=[theirs.fileno()], env={**os.environ, "PYTHONPATH": path})
        theirs.close()
        try:
            yield mine
        finally:
            worker.kill()
            worker.wait()
