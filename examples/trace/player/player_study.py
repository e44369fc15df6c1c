#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Why does the picture stand still now and then? (spTracer, section 5.1)

    python3 examples/trace/player/player_study.py [DIRECTORY [disk|screen [kernel|lab]]]

ffmpeg decodes a clip that is made on the spot, fed through a pipe by a `disk` and shown through another on a `screen`.
One of the two is late with every twelfth portion. A trace of 200 ms from the middle shows which call takes longer than
others of its path. With `kernel` the kernel's part is followed too, which needs the driver (gilk driver load); `lab`
does that in a virtual machine.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from study import asked, directory, gilk

LATE, PERIOD = 0.08, 12  # a device is LATE seconds with every PERIODth portion
SLOWER = 30  # an emulated processor is this much slower: all times in the virtual machine are longer by this factor
CLIP = ["-f", "lavfi", "-i", "testsrc2=size=160x120:rate=25:duration=24", "-c:v", "mpeg2video", "-b:v", "400k"]
PLAY = ["ffmpeg", "-v", "error", "-nostdin", "-f", "mpegts", "-i", "pipe:0", "-f", "rawvideo", "pipe:1"]
USER = ["--scope", "ffmpeg:", "--scope", "libavformat*:", "--scope", "libc.so.6:read", "--scope", "libc.so.6:write"]
IN_KERNEL = ["--kernel", "vfs_read", "--kernel", "vfs_write", "--kernel", "pipe_read", "--kernel", "pipe_write"]
EXPECTED = {("disk", False): "read", ("screen", False): "write",
            ("disk", True): "pipe_read", ("screen", True): "pipe_write"}  # fmt: skip


@dataclass(frozen=True)
class Device:
    """One end of the player, which passes on a portion every ``pause`` seconds, and every PERIODth after ``late``
    seconds."""

    portion: int
    pause: float
    late: float

    def carry(self, source: IO[bytes], sink: IO[bytes]) -> None:
        """Pass on portions until the source ends or the sink is closed."""
        for number in range(1 << 30):
            piece = os.read(source.fileno(), self.portion)
            time.sleep(self.late if number % PERIOD == PERIOD - 1 else self.pause)
            try:
                sink.write(piece)
                sink.flush()
            except BrokenPipeError:
                break
            if not piece:
                break
        sink.close()


def play(place: Path, late: str, in_kernel: bool, slower: int = 1, **environment: str) -> None:
    """Make a trace of 200 ms, play.parquet, while disk and screen are at work."""
    events = ["--start", "call:av_read_frame:50", "--stop", f"for:{200 * slower}ms"]
    words = ["trace", *events, *USER, *(IN_KERNEL if in_kernel else []), "-o", "play.parquet", "--", *PLAY]
    print(f"\n$ gilk {shlex.join(words)}", flush=True)
    player = subprocess.Popen([sys.executable, "-m", "gilk", *words], cwd=place,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env={**os.environ, **environment})  # fmt: skip
    assert player.stdin is not None and player.stdout is not None
    fcntl.fcntl(player.stdin, fcntl.F_SETPIPE_SZ, 4096)  # else it holds a second's data, and hides that one end is late
    disk = Device(2048, 0.002, LATE * slower if late == "disk" else 0.002)
    screen = Device(1 << 20, 0.0, LATE * slower if late == "screen" else 0.0)
    with (place / "clip.ts").open("rb") as clip, open(os.devnull, "wb") as nowhere:
        ends = [threading.Thread(target=disk.carry, args=(clip, player.stdin)),
                threading.Thread(target=screen.carry, args=(player.stdout, nowhere))]  # fmt: skip
        for end in ends:
            end.start()
        for end in ends:
            end.join()
    if player.wait():
        raise RuntimeError(f"gilk trace ended with status {player.returncode}")


def make_clip(place: Path) -> None:
    if not (place / "clip.ts").exists():
        subprocess.run(["ffmpeg", "-v", "error", *CLIP, "-f", "mpegts", place / "clip.ts"], check=True)


def study(place: Path, late: str, in_kernel: bool, slower: int) -> str:
    """Make the trace, and return the function that holds the picture up."""
    make_clip(place)
    play(place, late, in_kernel, slower)
    words = ["anomalies", "play.parquet", "--min-time", f"{20 * slower}ms"]
    gilk(*words, "--limit", "3", where=place)
    found = asked(*words, where=place)["anomalies"]
    slow = [each for each in found if each["kind"] == "slow"]
    return str(max(slow, key=lambda each: each["own_excess_ns"])["function"]) if slow else "nothing"


def in_lab(place: Path, late: str) -> int:
    """Run the study in a virtual machine, where the driver may be loaded, and return its exit status.

    An emulated machine is slow, so ffmpeg's code is analysed here first, and the machine finds the analysis in the
    cache.
    """
    make_clip(place)
    cache = {"GILK_CACHE": str(place / "cache")}
    play(place, late, in_kernel=False, **cache)
    here = shlex.join([sys.executable, str(Path(__file__).resolve()), str(place), late, "kernel", str(SLOWER)])
    mount = "mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug"
    load = shlex.join([sys.executable, "-m", "gilk", "driver", "load"])
    script = f"export GILK_CACHE={shlex.quote(cache['GILK_CACHE'])}; {mount}; {load} && exec {here}"
    machine = ["--cpus", "2", "--memory", "2048", "--rw", str(place)]
    return subprocess.run([sys.executable, "-m", "gilk", "lab", "run", *machine, "--", "sh", "-c", script]).returncode


def main() -> int:
    if shutil.which("ffmpeg") is None:
        print("this study plays with ffmpeg: apt-get install --no-install-recommends ffmpeg")
        return 2
    place = directory(sys.argv)
    late, where = sys.argv[2] if len(sys.argv) > 2 else "disk", sys.argv[3] if len(sys.argv) > 3 else ""
    if where == "lab":
        return in_lab(place, late)
    name = study(place, late, where == "kernel", int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    print(f"\nThe picture stands still in {name}.")
    return 0 if name == EXPECTED[late, where == "kernel"] else 1


if __name__ == "__main__":
    sys.exit(main())
