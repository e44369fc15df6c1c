#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Which call never returns when a machine hangs? (spTracer, section 5.3)

    python3 examples/trace/hang/hang_study.py [DIRECTORY]

The driver of standby.c puts a machine to sleep by way of a firmware that returns (a), hangs with one processor (b), or
with all of them (c). Each is traced in a virtual machine with a stock kernel, whose records are sent while they are
made. If both processors hang, the file has the records that were sent before. `gilk diff` tells what the machine did
last, and what a good run does beyond that.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from study import asked, directory, gilk, nodes

from gilk import lab

HERE = Path(__file__).resolve().parent
WHILE = "for:20s"  # an emulated machine needs some of it to start the command
LOST = 4  # gilk's exit status when the machine does not answer any more


def build(place: Path) -> None:
    """Build standby.ko for the kernel of the lab."""
    headers = lab.find(notify=print).headers
    for name in ("standby.c", "Kbuild"):
        shutil.copy(HERE / name, place)
    subprocess.run(["make", "-s", "-C", headers, f"M={place}", "modules"], check=True, stdout=subprocess.DEVNULL)


def trace(place: Path, firmware: str, name: str, *events: str, status: int = 0) -> None:
    """Trace the driver with a firmware, on the second processor, so that the first can go on sending records."""
    command = ["taskset", "-c", "1", "sh", "-c", f"echo {firmware} > /dev/standby"]
    where = ["--on", "lab", "--module", "standby.ko", "--kernel", "standby_*"]
    gilk("trace", *where, *events, "-o", name, "--", *command, where=place, status=status)


def plain(function: str) -> str:
    """The function's name as in the source, without the mark by which a tree says that it is the kernel's."""
    return function.partition("_[")[0]


def last_calls(place: Path, name: str) -> list[str]:
    """The last calls of a trace as paths; those that had not returned end in "..."."""
    found = [(path, node) for thread in asked("show", "--tree", name, where=place)["tree"]
             for path, node in nodes(thread["calls"])]  # fmt: skip
    return [" > ".join(map(plain, path)) + (" ..." if node["open"] else "") for path, node in found]


def study(place: Path) -> str:
    """The call that never returned, by the difference between good.parquet and bad.parquet."""
    build(place)
    trace(place, "a", "good.parquet")
    trace(place, "b", "bad.parquet", "--stop", WHILE, status=LOST)
    trace(place, "c", "dead.parquet", "--stop", WHILE, status=LOST)
    gilk("diff", "good.parquet", "bad.parquet", where=place, status=1)
    never = asked("diff", "good.parquet", "bad.parquet", where=place, status=1)["unfinished"]
    return plain(never[0]["path"][-1])


def main() -> int:
    place = directory(sys.argv)
    never = study(place)
    print(f"\nThe call that never returned is {never}.")
    before = last_calls(place, "dead.parquet")
    print("Where every processor hung, this had been sent before:", *before, sep="\n    ")
    sent = any(path.endswith("standby_stop_device") for path in before)
    return 0 if never == "standby_call_firmware" and sent else 1


if __name__ == "__main__":
    sys.exit(main())
