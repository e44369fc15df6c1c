# SPDX-License-Identifier: LGPL-2.1-or-later
"""Weaves files into a command and the kernel that runs both: IMAGE WAIT FILE,FILE... COMMAND...

The command is run once for each file. IMAGE is the kernel as it was read from outside the machine, because reading it
inside takes minutes. The program prints a line of JSON about each thing it does. Once it has done WAIT (shared,
processes, kernel, on), it waits to be killed.
"""

import json
import os
import pickle
import sys
from pathlib import Path

from gilk.api.aspects import read_aspects
from gilk.api.processes import hold
from gilk.engines.aspect.weaving import Weaving
from gilk.engines.aspect.woven_kernel import WovenKernel
from gilk.engines.aspect.woven_process import WovenProcess
from gilk.errors import GilkError
from gilk.targets.kernel.link import LocalLink
from gilk.targets.kernel.target import KernelTarget
from gilk.targets.process import Process


def say(**words: object) -> None:
    print(json.dumps(words), flush=True)


def waiting_behind(function: str, owner: type, step: str) -> None:
    """Make the owner's function wait, after it has been carried out, for the kill."""
    carried_out = getattr(owner, function)

    def then_wait(*given: object, **named: object) -> object:
        result = carried_out(*given, **named)
        say(waits=step)
        sys.stdin.read()
        return result

    setattr(owner, function, then_wait)


_STEPS = {"shared": (WovenKernel, "share"), "processes": (WovenProcess, "weave"), "kernel": (WovenKernel, "weave"),
          "on": (Weaving, "weave")}  # fmt: skip


def kernel_read(path: Path) -> KernelTarget:
    target = KernelTarget(LocalLink())
    target.__dict__["kernel"] = pickle.loads(path.read_bytes())
    return target


def weave(path: Path, kernel: KernelTarget, process: Process) -> None:
    file = read_aspects(path)
    members = {process.pid: [one.name for one in file.groups]}
    with Weaving(file, members, [process], kernel=kernel) as weaving:
        try:
            weaving.weave()
        except GilkError as error:
            say(error=error.slug, why=error.message, restored=[one.restored for one in weaving.summaries()])
            return
        say(woven=True)
        process.release()
        weaving.wait(None, lambda: False, lambda report: say(report=report.text))
    for report in weaving.reports(final=True):
        say(report=report.text)
    say(
        counts={one.name: [one.matches, one.begun, one.ended, one.open] for one in weaving.counts()},
        tables={one.table.name: [[row.key.hex(), row.sum] for row in one.rows] for one in weaving.tables()},
        restored=[one.restored for one in weaving.summaries()],
    )


def main(image: Path, wait: str, files: list[str], command: list[str]) -> None:
    if wait in _STEPS:
        owner, function = _STEPS[wait]
        waiting_behind(function, owner, wait)
    kernel = kernel_read(image)
    for path in files:
        (process,) = hold([], command)
        weave(Path(path), kernel, process)
        process.kill_unstarted()
        process.keeper.leave()


main(Path(sys.argv[1]), sys.argv[2], sys.argv[3].split(","), sys.argv[4:])
sys.stdout.flush()
os._exit(0)  # at once: freeing the kernel's image piece by piece takes the machine some time
