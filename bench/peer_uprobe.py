# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure uprobes with bpftrace (Debian: bpftrace): breakpoints that the kernel handles, and a BPF program that counts.

This needs root, and changes the running kernel: it runs only if `--kernel-peers` asks for it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from bench.measure import BURST, Hot, Many, Programs, Row, least

TOOL = "uprobe"
READY = 60.0  # seconds to wait for bpftrace to attach
PATTERNS = {1000: "f00*", 5000: "f0[0-4]*", 11_000: "f*"}

FORMS: dict[str, tuple[str, int]] = {
    "count at entry": ("uprobe:{path}:leaf {{ @ = count(); }}", 0),
    "count at entry and return": ("uprobe:{path}:leaf {{ @ = count(); }} uretprobe:{path}:leaf {{ @r = count(); }}", 0),
    "entry and return, recorded": (
        "uprobe:{path}:leaf {{ @start[tid] = nsecs; }} uretprobe:{path}:leaf {{ @ = hist(nsecs - @start[tid]); }}",
        BURST,
    ),
}


def rows(programs: Programs, counts: tuple[int, ...]) -> Iterator[Row]:
    """Every figure of uprobes, or one row that says why there is none."""
    if not shutil.which("bpftrace") or os.geteuid() != 0:
        yield Row("count at entry", TOOL, None, note="needs root and bpftrace: apt install bpftrace")
        return
    for what, (text, burst) in FORMS.items():
        yield least(partial(_per_hit, programs, what, text.format(path=programs.hot), burst))
    for count in counts:
        if count in PATTERNS:
            yield _activation(programs, count)


def _per_hit(programs: Programs, what: str, text: str, burst: int) -> Row:
    with Hot(programs.hot, "leaf", burst=burst) as hot:
        before = hot.cost()
        try:
            with _bpftrace(text, hot.pid):
                cost = hot.cost()
        except TimeoutError as error:
            return Row(what, TOOL, None, note=str(error))
    return Row(what, TOOL, cost - before)


def _activation(programs: Programs, count: int) -> Row:
    """The time to activate uprobes, with the compilation of one BPF program, which is the same for every count."""
    what = f"activate {count} functions"
    with Many(programs.many) as many:
        start = time.monotonic()
        try:
            with _bpftrace(f"uprobe:{programs.many}:{PATTERNS[count]} {{ @ = count(); }}", many.pid):
                return Row(what, TOOL, (time.monotonic() - start) * 1e3, "ms", "with compilation")
        except TimeoutError as error:
            return Row(what, TOOL, None, "ms", str(error))


@contextmanager
def _bpftrace(text: str, pid: int) -> Iterator[None]:
    """Run bpftrace; the block begins once all probes of `text` are attached, because bpftrace runs BEGIN after that.
    Raises TimeoutError."""
    command: Sequence[str] = ("bpftrace", "-p", str(pid), "-e", f'BEGIN {{ printf("attached\\n"); }} {text}')
    environment = {**os.environ, "BPFTRACE_MAX_PROBES": "20000"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    try:
        _await(process, "attached")
        yield
    finally:
        process.terminate()
        process.communicate()


def _await(process: subprocess.Popen[bytes], word: str) -> None:
    assert process.stdout is not None
    end = time.monotonic() + READY
    while time.monotonic() < end:
        line = process.stdout.readline()
        if word.encode() in line:
            return
        if not line:
            raise TimeoutError("bpftrace ended before it attached")
    raise TimeoutError(f"bpftrace did not attach in {READY:.0f} s")
