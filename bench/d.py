# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure D: the cost of a clause at each hit, the time of a one-liner to its first firing, and ten thousand probes.

The peer is Frida with an Interceptor in its C, whose listener adds to a counter, to a counter of a table by the
argument, or to a histogram; none of the three is safe among threads. uprobes and bpftrace change the kernel, and are
measured elsewhere (lab_uprobe.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.measure import BURST, SETTLE, TIMES, Hot, Many, Programs, Row, how_it_ended, least, load_bias, symbols

TOOL = "gilk"
PREFIX = "D: "
POINT = "pid$target:a.out:leaf:entry"
CLAUSES = {
    "a predicate that is false": ("/arg0 < 0/ {{ }}", 0),
    "count()": ("{{ @ = count(); }}", 0),
    "keyed count()": ("{{ @[arg0] = count(); }}", 0),
    "quantize()": ("{{ @ = quantize(arg0); }}", 0),
    "count() by ustack()": ("{{ @[ustack()] = count(); }}", 0),
    "default action, recorded": ("{{ }}", BURST),
    "printf() of two": ('{{ printf("%d %d", arg0, timestamp); }}', BURST),
}
ONE_LINERS = {
    "BEGIN": ("-n", "BEGIN { exit(0); }"),
    "malloc of a new process": (
        *("-n", "BEGIN { exit(0); } pid$target:libc.so.6:malloc:entry { @ = count(); }"),
        *("-c", "true"),
    ),
}

FRIDA = r"""
#include <gum/guminterceptor.h>
extern volatile long cells[];
void count(GumInvocationContext *ic) { cells[0]++; }
void keyed(GumInvocationContext *ic)
{ cells[((gsize)gum_invocation_context_get_nth_argument(ic, 0) * 0x9e3779b97f4a7c15UL) >> 54]++; }
void power(GumInvocationContext *ic)
{ gsize v = (gsize)gum_invocation_context_get_nth_argument(ic, 0); int n = 0; while (v) { v >>= 1; n++; } cells[n]++; }
"""
SCRIPT = """
const cells = Memory.alloc(8 * 1024);
const code = new CModule(SOURCE, { cells });
rpc.exports = { attach(form, address) { Interceptor.attach(ptr(address), code[form]); Interceptor.flush(); } };
"""
FORMS = {"count()": "count", "keyed count()": "keyed", "quantize()": "power"}


def rows(programs: Programs, counts: tuple[int, ...]) -> Iterator[Row]:
    """Every figure of D."""
    for what, (clause, burst) in CLAUSES.items():
        yield least(partial(_per_hit, programs, what, clause.format(point=POINT), burst))
        if what in FORMS:
            yield least(partial(_frida, programs, what, FORMS[what]))
    for what, words in ONE_LINERS.items():
        yield from _start_up(what, words)
    if max(counts) >= 10_000:
        yield from _many(programs)


def _gilk(words: Sequence[str], cache: str | None = None) -> subprocess.Popen[bytes]:
    environment = dict(os.environ, **({"GILK_CACHE": cache} if cache else {}))
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else gilk would be compiled at each start
    command = [sys.executable, "-m", "gilk", "dtrace", "-q", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)


def _per_hit(programs: Programs, what: str, clause: str, burst: int) -> Row:
    with Hot(programs.hot, "leaf", burst=burst) as hot:
        before = hot.cost()
        program = f'BEGIN {{ printf("ready\\n"); }} {POINT} {clause}'
        words = ["-x", "bufsize=16m", "-x", "switchrate=20ms", "-n", program, "-p", str(hot.pid)]
        client = _gilk(words)
        assert client.stdout is not None
        client.stdout.readline()
        with subprocess.Popen(["cat"], stdin=client.stdout, stdout=subprocess.DEVNULL):
            cost = hot.cost(settle=SETTLE)
            client.terminate()
            client.wait()
        note = how_it_ended(hot.status)
    return Row(PREFIX + what, TOOL, None if note else cost - before, note=note)


def _frida(programs: Programs, what: str, form: str) -> Row:
    try:
        import frida
    except ImportError:
        return Row(PREFIX + what, "frida", None, note="not installed: pip install 'gilk[bench]'")
    with Hot(programs.hot, "leaf") as hot:
        before = hot.cost()
        session = frida.attach(hot.pid)
        script = session.create_script(SCRIPT.replace("SOURCE", json.dumps(FRIDA)))
        script.load()
        address = load_bias(hot.pid, programs.hot) + symbols(programs.hot)["leaf"]
        script.exports_sync.attach(form, hex(address))
        cost = hot.cost()
        session.detach()
        time.sleep(SETTLE)
        note = how_it_ended(hot.status)
    return Row(PREFIX + what, "frida", None if note else cost - before, note=note)


def _start_up(what: str, words: Sequence[str]) -> Iterator[Row]:
    """The time of the whole command, whose BEGIN ends it: first with a cache that has only images, then with a full
    one."""
    with tempfile.TemporaryDirectory() as cache:
        _took(words, cache)
        first, again = [], []
        for _ in range(TIMES):
            for kind in ("d-programs", "instruments"):
                for each in (Path(cache) / kind).glob("*"):
                    each.unlink()
            first.append(_took(words, cache))
            again.append(_took(words, cache))
    yield Row(f"{PREFIX}one-liner, {what}, not compiled before", TOOL, min(first), "ms")
    yield Row(f"{PREFIX}one-liner, {what}, compiled before", TOOL, min(again), "ms")


def _took(words: Sequence[str], cache: str) -> float:
    begun = time.monotonic()
    _gilk(words, cache).communicate()
    return 1e3 * (time.monotonic() - begun)


def _many(programs: Programs) -> Iterator[Row]:
    """The time of the whole command that puts probes at the entries of 10 000 functions and takes them out again:
    with an empty cache, and with the cache that this run has filled."""
    took = []
    with Many(programs.many) as many, tempfile.TemporaryDirectory() as cache:
        words = ("-n", "BEGIN { exit(0); } pid$target:a.out:f0????:entry { @ = count(); }", "-p", str(many.pid))
        for _ in range(1 + TIMES):
            took.append(_took(words, cache))
            time.sleep(SETTLE)
        note = how_it_ended(many.status)
    what = f"{PREFIX}10000 probes, from the command to its end"
    for when, value in (("nothing known of the program", took[0]), ("once more", min(took[1:]))):
        yield Row(f"{what}, {when}", TOOL, None if note else value, "ms", note)
