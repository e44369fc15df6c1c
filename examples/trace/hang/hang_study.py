#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Which call never returns when a machine hangs? (spTracer, section 5.3)

    python3 examples/trace/hang/hang_study.py [DIRECTORY]

The driver of standby.c puts a machine to sleep by way of a firmware that
returns (a), hangs with one processor (b), or with all of them (c). Each is
traced in a virtual machine with a stock kernel, whose records come out while
they are made. Two processors hang as well as one: what had come by then is in
the file. What the machine did last, and what a good run does beyond that,
`gilk diff` says.
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
WHILE = "for:20s"  # an emulated machine needs some for the command to begin
LOST = 4  # gilk's exit status when the machine cannot be asked any more


def build(place: Path) -> None:
    """standby.ko, for the kernel of the lab."""
    headers = lab.find(notify=print).headers
    for name in ("standby.c", "Kbuild"):
        shutil.copy(HERE / name, place)
    subprocess.run(["make", "-s", "-C", headers, f"M={place}", "modules"], check=True, stdout=subprocess.DEVNULL)


def trace(place: Path, firmware: str, name: str, *events: str, status: int = 0) -> None:
    """On the second processor: the first one is to go on sending what there is."""
    command = ["taskset", "-c", "1", "sh", "-c", f"echo {firmware} > /dev/standby"]
    where = ["--on", "lab", "--module", "standby.ko", "--kernel", "standby_*"]
    gilk("trace", *where, *events, "-o", name, "--", *command, where=place, status=status)


def plain(function: str) -> str:
    """As the source has it; a tree says besides that it is the kernel's."""
    return function.partition("_[")[0]


def last_calls(place: Path, name: str) -> list[str]:
    """Of a trace, innermost what was under way, and which calls before that had returned."""
    found = [(path, node) for thread in asked("show", "--tree", name, where=place)["tree"]
             for path, node in nodes(thread["calls"])]  # fmt: skip
    return [" > ".join(map(plain, path)) + (" ..." if node["open"] else "") for path, node in found]


def study(place: Path) -> str:
    """The call that never returned, as the difference between good.parquet and bad.parquet has it."""
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
