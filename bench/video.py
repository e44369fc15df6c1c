# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure a video player while its calls are followed: table 1 of sptracer.txt, beside the peers, in one run.

Each frame's processor time is compared with that of the same frame of the same process undisturbed: *warm-up* is the
first frame that begins once following is on, *the frame it begins in* the one before that, *steady* the frames of the
last half, *inactive* those before, while the tool is attached and waits. The machine's own speed changes by tenths
within seconds, so the first three are corrected by the change of the frames in the second before and the second after.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.measure import BUILD, HERE, Row, compile_program

SMALL, LARGE = "640x360", "1920x1080"
FRAMES = 100
SCOPE = ("player:", "libavcodec*:", "libavformat*:", "libavutil*:")
PLAIN, ACTIVE, TIMES = 5.0, 3.0, 9  # seconds undisturbed, seconds followed, times followed
SECOND = 1e9  # seconds undisturbed, seconds followed, repetitions


def rows() -> Iterator[Row]:
    """Every figure of the video, or one row that says why there is none."""
    try:
        player = prepare()
    except (OSError, subprocess.CalledProcessError) as error:
        yield Row("video, steady", "gilk", None, "%", f"no player: {error}; apt install ffmpeg libavformat-dev")
        return
    yield from _gilk(player, LARGE, "video")
    yield from _gilk(player, SMALL, f"video of {SMALL}")
    yield from _all_at_start(player)
    yield from _stalker(player)
    data = str(BUILD / "uftrace.data")
    yield from _whole(player, "uftrace", "uftrace", "record", "--force", "--nest-libcall", "-d", data)
    yield from _whole(player, "valgrind", "valgrind", "--tool=none", "-q")


def prepare() -> Path:
    """Build the player and its clips. Returns the player's path. Raises OSError, CalledProcessError."""
    BUILD.mkdir(exist_ok=True)
    for size in (SMALL, LARGE):
        if not _clip(size).exists():
            source = f"mandelbrot=size={size}:rate=25"
            command = ["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", source, "-frames:v", str(FRAMES)]
            subprocess.run([*command, "-c:v", "libx264", "-bf", "0", "-y", str(_clip(size))], check=True)
    return compile_program(HERE / "targets" / "player.c", "-O2", "-pg", after=("-lavcodec", "-lavformat", "-lavutil"))


def _clip(size: str) -> Path:
    return BUILD / f"clip-{size}.mp4"


@dataclass(frozen=True)
class Frames:
    """The frames of a run: when each began, in ns of CLOCK_MONOTONIC, and how much more time it took than the same
    frame undisturbed, in %."""

    began: NDArray[np.int64]
    more: NDArray[np.float64]

    def between(self, low: float, high: float) -> float:
        """The median of ``more`` over the frames that began between ``low`` and ``high``; NaN if there are none."""
        inside = (self.began >= low) & (self.began < high)
        return float(np.median(self.more[inside])) if inside.any() else float("nan")

    def at(self, when: float, which: int = 0) -> float:
        """``more`` of the first frame that began at ``when`` or later, or of the frame ``which`` places after it;
        NaN if there is none."""
        number = int(np.searchsorted(self.began, when)) + which
        return float(self.more[number]) if 0 <= number < len(self.more) else float("nan")


class Player:
    """The running player. Its times and frames can be read while it runs and after it was closed."""

    def __init__(self, program: Path, *wrapper: str, size: str = LARGE) -> None:
        self._file = tempfile.NamedTemporaryFile()  # noqa: SIM115 - it lives as long as the player
        command = [*wrapper, str(program), str(_clip(size))]
        self._process = subprocess.Popen(command, stdout=self._file, stderr=subprocess.DEVNULL, cwd=BUILD)
        self.pid = self._process.pid

    def __enter__(self) -> Player:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def times(self) -> NDArray[np.int64]:
        """The frames as rows of (begin, processor time), in ns."""
        data = Path(self._file.name).read_bytes()
        return np.frombuffer(data[: len(data) & -16], "<i8").reshape(-1, 2)

    def frames(self, undisturbed: float) -> Frames:
        """All frames, each compared with the same frame before the time ``undisturbed``, in ns."""
        times = self.times()
        which = np.arange(len(times)) % FRAMES
        plain = times[:, 0] < undisturbed
        usual = np.array([_median(times[plain & (which == n), 1]) for n in range(FRAMES)])
        return Frames(times[:, 0], 100 * (times[:, 1] / usual[which] - 1))


def _median(values: NDArray[np.int64]) -> float:
    return float(np.median(values)) if len(values) else float("nan")


def _gilk(program: Path, size: str, what: str) -> Iterator[Row]:
    import gilk

    found: dict[str, list[float]] = {name: [] for name in ("warm-up", "begins in", "steady", "inactive", "activation")}
    for _ in range(TIMES):
        with Player(program, size=size) as player, tempfile.TemporaryDirectory() as place:
            time.sleep(PLAIN)
            undisturbed = time.monotonic_ns()
            running = gilk.prepare_trace(
                [player.pid], (), Path(place, "trace"), "after:1s", f"for:{ACTIVE:g}s", SCOPE
            )  # fmt: skip
            running.begin()
            ready = time.monotonic_ns()
            running.wait(None, lambda: False, lambda _: None)
            running.finish()
            start, stop = running.window
            running.processes[0].keeper.leave()
            left = time.monotonic_ns()
            time.sleep(1)
            frames = player.frames(undisturbed)
        begun = start + 1e6 * running.activation_ms
        before, behind = frames.between(start - SECOND, start), frames.between(left, left + SECOND)
        found["warm-up"].append(_relative(frames.at(begun), before))
        found["begins in"].append(_relative(frames.at(begun, -1), before))
        found["steady"].append(_relative(frames.between((start + stop) / 2, stop), (before + behind) / 2))
        found["inactive"].append(frames.between(ready, start))
        found["activation"].append(running.activation_ms)
    note = f"frames of {size} H.264, one thread"
    yield Row(f"{what}, warm-up", "gilk", statistics.median(found["warm-up"]), "%", note)
    yield Row(f"{what}, the frame it begins in", "gilk", statistics.median(found["begins in"]), "%")
    yield Row(f"{what}, steady", "gilk", statistics.median(found["steady"]), "%")
    yield Row(f"{what}, inactive", "gilk", statistics.median(found["inactive"]), "%")
    functions = f"{running.functions} functions"
    yield Row(f"{what}, activation", "gilk", statistics.median(found["activation"]), "ms", functions)


def _relative(more: float, usual: float) -> float:
    """The increase ``more``, relative to the increase ``usual`` that happened anyway; all in %."""
    return 100 * ((100 + more) / (100 + usual) - 1)


def _all_at_start(program: Path) -> Iterator[Row]:
    """Measure the pre-instrumented form of the paper: everything is followed from the start, and nothing is left
    out."""
    import gilk

    with tempfile.TemporaryDirectory() as place:
        with Player(program) as player:
            time.sleep(PLAIN)
            plain = player.times()
        with Player(program) as player:
            time.sleep(0.05)
            running = gilk.prepare_trace(
                [player.pid], (), Path(place, "trace"), "now", f"for:{ACTIVE:g}s", SCOPE, everything=True
            )  # fmt: skip
            running.begin()
            running.wait(None, lambda: False, lambda _: None)
            start, stop = running.window
            times = player.times()
            running.finish()
            running.processes[0].keeper.leave()
    yield Row("video, steady", "gilk, nothing left out", _compared(plain, times, start, stop), "%")


def _compared(plain: NDArray[np.int64], times: NDArray[np.int64], low: float, high: float) -> float:
    """The median increase of the frames that began between ``low`` and ``high``, in %, over the same frames of
    another process."""
    usual = np.array([_median(plain[n::FRAMES, 1]) for n in range(FRAMES)])
    which = np.arange(len(times)) % FRAMES
    inside = (times[:, 0] >= low) & (times[:, 0] < high)
    return float(np.median(100 * (times[inside, 1] / usual[which[inside]] - 1)))


def _whole(program: Path, tool: str, *wrapper: str) -> Iterator[Row]:
    """Measure a tool that wraps the player from its start."""
    if not shutil.which(wrapper[0]):
        yield Row("video, steady", tool, None, "%", f"not installed: apt install {wrapper[0]}")
        return
    with Player(program) as player:
        time.sleep(PLAIN)
        plain = player.times()
    with Player(program, *wrapper) as player:
        time.sleep(3 * PLAIN)
        times = player.times()
    shutil.rmtree(BUILD / "uftrace.data", ignore_errors=True)
    if len(times) < FRAMES // 4:
        yield Row("video, steady", tool, None, "%", f"{len(times)} frames in {3 * PLAIN:g} s")
        return
    half = int(times[len(times) // 2, 0])
    note = "calls of other images only" if tool == "uftrace" else "nothing recorded"
    yield Row("video, warm-up", tool, 100 * (times[0, 1] / plain[0, 1] - 1), "%", "from the start")
    yield Row("video, steady", tool, _compared(plain, times, half, 1 << 62), "%", note)


STALKER = """
rpc.exports = {
  follow(tid) { Stalker.follow(tid, { events: { call: true, ret: true }, onReceive(events) {} }); },
  unfollow(tid) { Stalker.unfollow(tid); Stalker.flush(); },
};
"""


def _stalker(program: Path) -> Iterator[Row]:
    """Measure Frida's Stalker, which copies code as it goes (Frida's documentation, Stalker.follow)."""
    try:
        import frida
    except ImportError:
        yield Row("video, steady", "frida", None, "%", "not installed: pip install frida")
        return
    with Player(program) as player, contextlib.ExitStack() as stack:
        time.sleep(PLAIN)
        undisturbed = time.monotonic_ns()
        session: Any = frida.attach(player.pid)
        stack.callback(session.detach)
        script = session.create_script(STALKER)
        script.load()
        time.sleep(1)
        start = time.monotonic_ns()
        script.exports_sync.follow(player.pid)
        time.sleep(ACTIVE)
        stop = time.monotonic_ns()
        frames = player.frames(undisturbed)
    yield Row("video, warm-up", "frida", frames.at(start), "%")
    yield Row("video, steady", "frida", frames.between((start + stop) / 2, stop), "%")
    yield Row("video, inactive", "frida", frames.between(undisturbed + 5e8, start), "%")
