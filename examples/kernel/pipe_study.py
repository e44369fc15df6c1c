#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Which program of a pipeline is the bottleneck? The kernel knows: it is where the others wait.

    python3 examples/kernel/pipe_study.py [DIRECTORY]

In a virtual machine with a stock kernel, `cat | sed | grep | sort` works on a file. Before the block of pipe_write that
waits for room, and before that of pipe_read that waits for data, an instrument in C logs the name of the task (GILK,
section 4.3). A program that produces faster than the next one consumes waits to write; a program that consumes faster
than the one before it produces waits to read. Afterwards the kernel's text is compared, byte for byte, with what it
was.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa

import gilk
from gilk import FunctionView, Kernel, Place, c

STAGES = ("cat", "sed", "grep", "sort")
WORK = r"""seq 1 60000 > /tmp/vol_dump
cat /tmp/vol_dump | sed -e 's/\(.\)\(.*\)\(.\)/\3\2\1/' -e 's/1/one/g' | grep -v 99 | sort | tail -1"""
SLEEPS = ("schedule", "schedule_timeout")


def waiting(kernel: Kernel, name: str) -> Place:
    """The point before the block of a function that goes to sleep."""
    function: FunctionView = kernel.function(name)
    sleeps = {f.address for sleep in SLEEPS for f in kernel.functions(sleep)}
    sites = [site for site, target in function.function.calls if target in sleeps]
    block = next(block for block in function.blocks if any(block.block.start <= s < block.block.end for s in sites))
    return block.pre


def text_of(kernel: Kernel) -> bytes:
    """The code of the functions that are changed, as it is in the kernel's memory now."""
    spans = [kernel.function(name).function for name in ("pipe_write", "pipe_read")]
    return b"".join(kernel.target.link.read_core([(f.start, f.end - f.start) for f in spans]))


def study(kernel: Kernel) -> tuple[pa.Table, bool]:
    """The samples, which say which task waited where, and whether the code was afterwards the same as before."""
    before = text_of(kernel)
    who = c(Path(__file__).with_name("waits.c"), "whose")
    with kernel.session() as session:
        for name in ("pipe_write", "pipe_read"):
            (probe,) = session.insert(waiting(kernel, name), who)
            print(f"{probe.row.point}: {probe.tactic or probe.refusal}", flush=True)
        kernel.start(["sh", "-c", WORK])
        parts = []
        while kernel.status is None:
            parts.append(session.poll())
        table = pa.concat_tables([*parts, session.close()], promote_options="default")
    return table, bool(session.restored) and text_of(kernel) == before


def report(table: pa.Table) -> None:
    waits = Counter(zip(table["function"].to_pylist(), table["text"].to_pylist(), strict=True))
    print(f"\n{'':8}{'waits to write':>16}{'waits to read':>16}")
    for name in STAGES:
        print(f"{name:8}{waits['pipe_write', name]:16}{waits['pipe_read', name]:16}")
    before = max(range(len(STAGES)), key=lambda i: waits["pipe_write", STAGES[i]])
    print(f"\nThe bottleneck is {STAGES[min(before + 1, len(STAGES) - 1)]}: {STAGES[before]} waits for it.")


def main() -> int:
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    directory.mkdir(parents=True, exist_ok=True)
    print("starting a virtual machine with a stock kernel, and reading its code", flush=True)
    with gilk.kernel("lab") as kernel:
        table, restored = study(kernel)
    report(table)
    print(f"The kernel's text is {'what it was, byte for byte' if restored else 'NOT what it was'}.")
    draw(table, directory / "waits.png")
    return 0 if restored else 1


def draw(table: pa.Table, path: Path) -> None:
    """Draw when each program waited, and for what."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 3))
    rows = table.to_pylist()
    for function, mark in (("pipe_write", "|"), ("pipe_read", "x")):
        found = [(row["time"] / 1e9, STAGES.index(row["text"])) for row in rows if row["function"] == function
                 and row["text"] in STAGES]  # fmt: skip
        axes.scatter([x for x, _ in found], [y + 0.1 * (mark == "x") for _, y in found], marker=mark, label=function)
    axes.set_yticks(range(len(STAGES)), STAGES)
    axes.set_xlabel("seconds since the session began")
    axes.legend(title="waits in")
    figure.tight_layout()
    figure.savefig(path)
    print(f"drawn in {path}")


if __name__ == "__main__":
    sys.exit(main())
