# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure clauses of D beside BPF on uprobes, in guest instructions. lab_uprobe.py tells why, and what that leaves out.

bpftrace turns `@ = count()`, `@[arg0] = count()` and `@ = hist(arg0)` into a BPF program at a uprobe. The programs here
do the same by hand (targets/lab_bpf.c), with a counter or a hash table of counters for each processor.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from bench.lab_uprobe import LIMIT, cost, shell
from bench.measure import HERE, Programs, Row, compile_program
from gilk import GilkError
from gilk.lab import Machine, boot
from gilk.lab.vm import VM

UNIT = "instructions"
BATCHES = "25"  # the consumer, which wakes up ten times a second, takes time in some of them
CLAUSES = {
    "D: a predicate that is false, guest instructions": ("/arg0 < 0/ { }", ""),
    "D: count(), guest instructions": ("{ @ = count(); }", "count"),
    "D: keyed count(), guest instructions": ("{ @[arg0 & 15] = count(); }", "keyed"),
    "D: quantize(), guest instructions": ("{ @ = quantize(arg0); }", "powers"),
}
BPF = """\
place=$(mktemp -d); mkfifo $place/in
{program} uprobe {path} {offset:#x} {form} < $place/in > $place/out & exec 3> $place/in
until grep -q ready $place/out; do sleep 0.1; done
{path} leaf {batches}
exec 3>&-; wait
tail -n 1 $place/out | sed 's/^/hits /'
"""
GILK = "exec {python} -m gilk dtrace -q -n {clause} -c '{path} leaf {batches}'"


def rows(programs: Programs, counts: tuple[int, ...]) -> Iterator[Row]:
    """The instructions that a hit adds to a call, for each clause and tool, or one row that says why there is no
    figure."""
    try:
        bpf = compile_program(HERE / "targets" / "lab_bpf.c", "-O2")
        with boot(Machine(memory=2048, icount=True)) as vm:
            plain = cost(vm.run(shell("{path} leaf {batches}", programs), timeout=LIMIT))
            for what, (clause, form) in CLAUSES.items():
                yield Row(what, "gilk", _gilk(vm, programs, clause) - plain, UNIT)
                if form:
                    yield Row(what, "BPF, uprobe", _bpf(vm, programs, bpf, form) - plain, UNIT)
    except (GilkError, ValueError) as error:
        yield Row(next(iter(CLAUSES)), "gilk", None, UNIT, str(error))


def _gilk(vm: VM, programs: Programs, clause: str) -> float:
    text = shlex.quote(f"pid$target:a.out:leaf:entry {clause}").replace("{", "{{").replace("}", "}}")
    return cost(vm.run(shell(GILK.replace("{clause}", text), programs, BATCHES), timeout=LIMIT))


def _bpf(vm: VM, programs: Programs, bpf: Path, form: str) -> float:
    """The instructions of a call with the BPF program at its uprobe. Raises ValueError if the program was never
    called."""
    text = BPF.replace("{program}", str(bpf.resolve())).replace("{form}", form)
    done = vm.run(shell(text, programs), timeout=LIMIT)
    hits = [int(line.split()[1]) for line in done[1].decode().splitlines() if line.startswith("hits")]
    if not hits or hits[0] < 1000:
        raise ValueError(f"{form}: it was never called: {done[2].decode(errors='replace')[-300:]}")
    return cost(done)
