#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Why does the menu freeze the first time it is opened? (spTracer, section 5.2)

    python3 examples/trace/freeze/freeze_study.py [DIRECTORY [LIBRARY]]

The program of menu.c opens a menu twelve times; the first time it loads five libraries for it, whose constructors read,
compute and wait. One of them takes far longer than the others: LIBRARY, by default `sound`. The study does not use that
knowledge: it takes a trace from the first opening of the menu to the last, finds the call in it that is most unlike the
others, and tells whose constructor took the time.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from study import Node, asked, directory, gilk, heaviest, nodes

HERE = Path(__file__).resolve().parent
#: For each library, what its constructor does, and for how long or how often.
LIBRARIES = {"fonts": ("read_files", 5), "icons": ("compute", 5), "sound": ("wait_for_device", 10),
             "spelling": ("compute", 10), "history": ("read_files", 10)}  # fmt: skip
SLOW = ("wait_for_device", 500)
CLICKS = 12


@dataclass(frozen=True)
class Constructor:
    """The constructor of a library: its time in ns, and the functions in which it spent most of that."""

    name: str
    total: int
    within: tuple[str, ...]


def build(place: Path, slow: str) -> list[str]:
    """Build the program and its libraries, the one named ``slow`` slow. Returns the command that runs it."""
    subprocess.run(["cc", "-O1", "-g", "-o", place / "menu", HERE / "menu.c", "-ldl"], check=True)
    for name, usual in LIBRARIES.items():
        what, amount = SLOW if name == slow else usual
        told = [f"-DNAME={name}", f"-DSLOWLY={what}", f"-DAMOUNT={amount}"]
        made = place / f"lib{name}.so"
        subprocess.run(["cc", "-O1", "-g", "-fPIC", "-shared", *told, "-o", made, HERE / "library.c"], check=True)
    return ["./menu", *(f"./lib{name}.so" for name in LIBRARIES)]


def constructors(tree: list[Node]) -> Iterator[Constructor]:
    """The constructors of the libraries, wherever they are in the tree."""
    for _, node in nodes(tree):
        if node["function"].endswith("_init") and node["image"].startswith("lib") and node["function"] != "_init":
            yield Constructor(node["image"], node["total"], tuple(each["function"] for each in heaviest(node)))


def study(place: Path, slow: str) -> tuple[list[str], list[Constructor]]:
    """The path of the call that is most unlike the others, and the constructors, the longest first."""
    command = build(place, slow)
    events = ["--start", "call:open_menu", "--stop", f"return:open_menu:{CLICKS}"]
    gilk("trace", *events, "--skip", "ld-linux*:", "-o", "menu.parquet", "--", *command, where=place)
    gilk("anomalies", "menu.parquet", "--limit", "1", where=place)
    gilk("show", "--tree", "--min-time", "10ms", "menu.parquet", where=place)
    odd = asked("anomalies", "menu.parquet", "--limit", "1", where=place)["anomalies"][0]
    (thread,) = asked("show", "--tree", "menu.parquet", where=place)["tree"]
    return odd["path"], sorted(constructors(thread["calls"]), key=lambda each: -each.total)


def report(path: list[str], found: list[Constructor]) -> None:
    print(f"\nUnlike the others is one call of {path[-1]}. Under it these constructors ran:\n")
    for each in found:
        print(f"{each.total / 1e6:8.1f} ms  {each.name:16}{' > '.join(each.within)}")
    print(f"\nThe menu waits for {found[0].name}: {found[0].within[-1]} in {found[0].within[1]} takes the time.")


def main() -> int:
    slow = sys.argv[2] if len(sys.argv) > 2 else "sound"
    path, found = study(directory(sys.argv), slow)
    report(path, found)
    return 0 if found[0].name == f"lib{slow}.so" and path == ["open_menu"] else 1


if __name__ == "__main__":
    sys.exit(main())
