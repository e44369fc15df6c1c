# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure how long D one-liners take from the command to their end, beside bpftrace's, in guest instructions.

bpftrace changes the running kernel, so this is measured in one that is thrown away, where every instruction takes a
nanosecond (lab_uprobe.py). The machine has one processor, so gilk's parallel work runs one part after the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.lab_uprobe import LIMIT, shell
from bench.measure import Programs, Row
from gilk import GilkError
from gilk.lab import Machine, boot
from gilk.lab.vm import VM

UNIT = "million instructions"
LIBC = "/lib/x86_64-linux-gnu/libc.so.6"
GILK = "{{python}} -m gilk dtrace -q -n '{}'"
ONE_LINERS = {
    "BEGIN": (GILK.format("BEGIN {{ exit(0); }}"), "bpftrace -e 'BEGIN {{ exit(); }}'"),
    "malloc of a new process": (
        f"{GILK.format('pid$target:libc.so.6:malloc:entry {{ @ = count(); }}')} -c /bin/true",
        f"bpftrace -e 'uprobe:{LIBC}:malloc {{{{ @ = count(); }}}}' -c /bin/true",
    ),
}
#: A script that prints the nanoseconds of a command; the status shows whether the command did its work.
TIMED = """\
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
export GILK_CACHE=/tmp/gilk-start
{before}
begun=$(date +%s%N)
{command} > /tmp/said
echo $(($(date +%s%N) - begun))
"""
FORGET = "rm -rf $GILK_CACHE/d-programs $GILK_CACHE/instruments"


def rows(programs: Programs, counts: tuple[int, ...]) -> Iterator[Row]:
    """Gilk's figures with a cache that has only images, and with a full one, and bpftrace's; or one row that says
    why there are none."""
    try:
        with boot(Machine(memory=2048, icount=True)) as vm:
            for what, (gilk, bpftrace) in ONE_LINERS.items():
                name = f"D: one-liner, {what}, guest instructions"
                _took(vm, programs, gilk)
                yield Row(f"{name}, not compiled before", "gilk", _took(vm, programs, gilk, FORGET), UNIT)
                yield Row(f"{name}, compiled before", "gilk", _took(vm, programs, gilk), UNIT)
                _took(vm, programs, bpftrace)
                yield Row(f"{name}, compiled before", "bpftrace", _took(vm, programs, bpftrace), UNIT)
    except (GilkError, ValueError) as error:
        yield Row("D: one-liner, BEGIN, guest instructions, compiled before", "gilk", None, UNIT, str(error))


def _took(vm: VM, programs: Programs, command: str, before: str = ":") -> float:
    """The milliseconds of a command, measured in the machine. Raises ValueError with the command's errors if it
    fails."""
    text = TIMED.replace("{before}", before).replace("{command}", command)
    status, out, said = vm.run(shell(text, programs), timeout=LIMIT)
    if status:
        raise ValueError(f"{command}: status {status}: {said.decode(errors='replace').strip()[-300:]}")
    return int(out.split()[-1]) / 1e6
