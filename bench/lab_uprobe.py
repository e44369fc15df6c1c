# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure uprobes beside gilk in guest instructions, in a virtual machine where every instruction takes one nanosecond.

uprobes change the running kernel, so they are measured in one that is thrown away afterwards; and under emulation
instructions are what can be counted. The figures understate the uprobe: its trap and the return from it cost hundreds
of cycles each on a real processor, and are one instruction here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Programs, Row
from gilk import GilkError
from gilk.lab import Machine, boot

BATCHES = "3"
LIMIT = 900.0  # seconds that a command in the machine may take
ROOT = Path(__file__).parent.parent
UPROBE = """\
mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing
cd /sys/kernel/tracing
echo 'p:leaf {path}:{offset:#x}' > uprobe_events
echo 1 > events/uprobes/leaf/enable
{path} leaf {batches}
echo 0 > events/uprobes/leaf/enable
echo > uprobe_events
"""
GILK = "exec {python} -m gilk run -q -i leaf:entry=count -- {path} leaf {batches}"
WHAT = "count at entry, guest instructions"


def rows(programs: Programs, counts: tuple[int, ...]) -> Iterator[Row]:
    """The instructions that a hit adds to a call, for each tool, or one row that says why there are none."""
    try:
        with boot(Machine(memory=2048, icount=True)) as vm:
            plain = cost(vm.run(shell("{path} leaf {batches}", programs), timeout=LIMIT))
            for tool, text in (("gilk", GILK), ("uprobe", UPROBE)):
                yield Row(WHAT, tool, cost(vm.run(shell(text, programs), timeout=LIMIT)) - plain, "instructions")
    except (GilkError, ValueError) as error:
        yield Row(WHAT, "uprobe", None, "instructions", str(error))


def shell(text: str, programs: Programs, batches: str = BATCHES) -> list[str]:
    path = programs.hot.resolve()
    script = text.format(path=path, offset=offset(path), batches=batches, python=sys.executable)
    return ["env", f"PYTHONPATH={ROOT / 'src'}", f"PATH={os.environ['PATH']}", "sh", "-ec", script]


def offset(path: Path) -> int:
    """The offset of the function leaf in the file, which equals its address there."""
    listing = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    return next(int(line.split()[0], 16) for line in listing.splitlines() if line.endswith(" leaf"))


def cost(done: tuple[int, bytes, bytes]) -> float:
    """The cost of a call in the cheapest batch. Raises ValueError with the program's errors if there is none."""
    status, out, said = done
    costs = [float(line) for line in out.decode().splitlines() if line.replace(".", "", 1).isdigit()]
    if status or not costs:
        raise ValueError(f"status {status}: {said.decode(errors='replace').strip()[-300:]}")
    return min(costs)
