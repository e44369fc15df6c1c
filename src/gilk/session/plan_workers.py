# SPDX-License-Identifier: LGPL-2.1-or-later
"""Templates of the timing of images: from the cache, or made, several images at a time, in processes of their own.

Such a process is ``python -m gilk.session.plan_workers FD``. It runs beside the program that is watched, at a lower
priority.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gilk import activity
from gilk.errors import GilkError
from gilk.image.elf import load
from gilk.own_threads import room_for
from gilk.session import plan_cache
from gilk.session.plan_cache import TIMING
from gilk.splice.allocator import OutOfSpace
from gilk.splice.template import MalformedTemplate, PlanTemplate
from gilk.splice.template_build import Progress
from gilk.targets import wire
from gilk.targets.base import Loaded, Target
from gilk.targets.image import analyse
from gilk.targets.templates import Shape

_NICE = 5
#: Errors upon which a whole image cannot be planned at once; it can still be planned function by function.
_TOO_MUCH = (OutOfSpace, OverflowError, MemoryError, GilkError)


def timing_templates(
    process: Target, images: Iterable[Loaded], shape: Shape, told: Progress = lambda done, of: None
) -> dict[Path, PlanTemplate]:
    """The timing templates of images, by path; an image that cannot have one is missing.

    If the cache lacks some, ``told`` is called, from any thread, with how many functions are planned and how many there
    are in all. Raises CompileError.
    """
    found: dict[Path, PlanTemplate] = {}
    missing: dict[str, Loaded] = {}  # two files may be the same image
    keys = {}
    for loaded in images:
        image = process.image(loaded.path)
        known = plan_cache.load(TIMING, image, shape)
        if known is not None:
            found[loaded.path] = known
        else:
            keys[loaded.path] = plan_cache.key(TIMING, image, shape)
            missing[keys[loaded.path]] = loaded
    made = _make(process, missing, shape, told)
    found.update((path, made[key]) for path, key in keys.items() if key in made)
    return found


def _make(process: Target, missing: dict[str, Loaded], shape: Shape, told: Progress) -> dict[str, PlanTemplate]:
    """Make the missing templates, by key. The largest images come first, so that no processor idles at the end."""
    sizes = {key: len(process.image(loaded.path).spans) for key, loaded in missing.items()}
    order = sorted(missing, key=lambda key: -sizes[key])
    tell = _Sum(sizes, told)
    made: dict[str, PlanTemplate] = {}
    threads = room_for(min(_processors(), len(order)))
    if threads < 2:
        for key in order:
            with contextlib.suppress(*_TOO_MUCH):
                made[key] = plan_cache.make_timing(process.analysis(missing[key]), shape, tell.of(key))
        return made
    with ThreadPoolExecutor(threads) as pool:
        jobs = {key: pool.submit(_make_apart, missing[key].path, key, shape, tell.of(key)) for key in order}
        found = {key: job.result() for key, job in jobs.items()}
    return {key: template for key, template in found.items() if template is not None}


def _processors() -> int:
    return len(os.sched_getaffinity(0))


class _Sum:
    """Sums the progress with several images up to one."""

    def __init__(self, sizes: dict[str, int], told: Progress) -> None:
        self._done = dict.fromkeys(sizes, 0)
        self._sizes, self._all = sizes, sum(sizes.values())
        self._told = told
        self._lock = threading.Lock()

    def of(self, key: str) -> Progress:
        def told(done: int, of: int) -> None:
            with self._lock:
                self._done[key] = done
                whole = sum(self._done[each] >= size for each, size in self._sizes.items())
                done_in_all = sum(self._done.values())
                what = f"analysing {whole} of {len(self._sizes)} images,"
                activity.tell(what, done_in_all, self._all, "functions")
                self._told(done_in_all, self._all)

        return told


def _make_apart(path: Path, key: str, shape: Shape, told: Progress) -> PlanTemplate | None:
    """Make a template in a process of its own; None if there can be none."""
    with _worker() as channel:
        try:
            wire.send(channel, (path, key, shape))
            while True:
                (word, *values), _ = wire.receive(channel)
                if word != "told":
                    return PlanTemplate.from_arrays(values[0]) if word == "made" else None
                told(*values)
        except (wire.ChannelClosed, MalformedTemplate):
            return None


@contextlib.contextmanager
def _worker() -> Iterator[socket.socket]:
    """A context with the channel to a worker process, which is killed at the end."""
    mine, theirs = socket.socketpair()
    arguments = [sys.executable, "-P", "-m", "gilk.session.plan_workers", str(theirs.fileno())]
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    with mine, theirs:
        worker = subprocess.Popen(arguments, pass_fds=[theirs.fileno()], env={**os.environ, "PYTHONPATH": path})
        theirs.close()
        try:
            yield mine
        finally:
            worker.kill()
            worker.wait()


# In the worker.


def serve(channel: socket.socket) -> None:
    """Answer one request: the image's path, its template's key, and the shape. Raises wire.ChannelClosed if the client
    has gone."""
    (path, key, shape), _ = wire.receive(channel)
    try:
        image = load(path)
        if plan_cache.key(TIMING, image, shape) != key:  # the file has been replaced
            wire.send(channel, ("none",))
            return
        made = plan_cache.make_timing(analyse(image), shape, lambda done, of: wire.send(channel, ("told", done, of)))
    except _TOO_MUCH:
        wire.send(channel, ("none",))
        return
    wire.send(channel, ("made", made.to_arrays()))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at the terminal: the client ends this process
    os.nice(_NICE)
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    try:
        serve(channel)
    except wire.ChannelClosed:
        sys.exit(1)


if __name__ == "__main__":
    main()
