# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure Frida (PyPI: frida): Interceptor with probes compiled from C, its fastest way.

Three forms are measured: a probe function at the entry; a listener at entry and return; and a listener that takes the
time at both and stores the two. Frida's JavaScript probes cost several times as much, and are not the peer to beat.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from bench.measure import BURST, SETTLE, Hot, Many, Programs, Row, how_it_ended, least, load_bias, memory, symbols

TOOL = "frida"

# Frida's C modules may not write to their own static data, so the script supplies the memory that they write to. Its
# compiler is TCC, without usable inline assembly: the time comes from GLib's clock, as Frida's users take it.
SOURCE = r"""
#include <gum/guminterceptor.h>
#include <glib.h>
struct record { gint64 time; long kind; };
extern volatile long hits;
extern struct record ring[];

void probe(GumInvocationContext *ic) { hits++; }
void on_enter(GumInvocationContext *ic) { hits++; }
void on_leave(GumInvocationContext *ic) { hits++; }

static void store(long kind)
{
  struct record *r = &ring[hits++ & 4095];
  r->time = g_get_monotonic_time();
  r->kind = kind;
}

void stamp(GumInvocationContext *ic) { store(1); }
void stamp_enter(GumInvocationContext *ic) { store(1); }
void stamp_leave(GumInvocationContext *ic) { store(2); }
"""

SCRIPT = """
const hits = Memory.alloc(8);
const ring = Memory.alloc(4096 * 16);
const code = new CModule(SOURCE, { hits, ring });
const forms = {
  probe: code.probe,
  stamp: code.stamp,
  both: { onEnter: code.on_enter, onLeave: code.on_leave },
  stamps: { onEnter: code.stamp_enter, onLeave: code.stamp_leave },
};
rpc.exports = {
  attach(form, addresses) {
    const start = Date.now();
    for (const address of addresses) Interceptor.attach(ptr(address), forms[form]);
    Interceptor.flush();
    return Date.now() - start;
  },
  detach() { Interceptor.detachAll(); Interceptor.flush(); },
  hits() { return hits.readU64().toNumber(); },
};
"""

FORMS = {
    "count at entry": "probe",
    "stamp at entry": "stamp",
    "count at entry and return": "both",
    "entry and return, recorded": "stamps",
}


def rows(programs: Programs, counts: tuple[int, ...]) -> Iterator[Row]:
    """Every figure of Frida, or one row that says why there is none."""
    try:
        import frida  # noqa: F401
    except ImportError:
        yield Row("count at entry", TOOL, None, note="not installed: pip install 'gilk[bench]'")
        return
    for what, form in FORMS.items():
        yield least(partial(_per_hit, programs, what, form))
    for count in counts:
        yield from _activation(programs, count)


def _script(pid: int) -> tuple[Any, Any]:
    import frida

    session = frida.attach(pid)
    script = session.create_script(SCRIPT.replace("SOURCE", json.dumps(SOURCE)))
    script.load()
    return session, script.exports_sync


def _per_hit(programs: Programs, what: str, form: str) -> Row:
    with Hot(programs.hot, "leaf", burst=BURST if form.startswith("stamp") else 0) as hot:
        before = hot.cost()
        session, exports = _script(hot.pid)
        address = load_bias(hot.pid, programs.hot) + symbols(programs.hot)["leaf"]
        try:
            exports.attach(form, [hex(address)])
            cost, hits = hot.cost(), exports.hits()
            exports.detach()
            session.detach()
        except Exception as error:  # most often the program has died
            time.sleep(SETTLE)
            return Row(what, TOOL, None, note=how_it_ended(hot.status) or f"{type(error).__name__}: {error}"[:60])
        note = how_it_ended(hot.status) or ("" if hits else "no hits")
    return Row(what, TOOL, cost - before if not note else None, note=note)


def _activation(programs: Programs, count: int) -> Iterator[Row]:
    """The time of the attach calls alone, once the agent is loaded, and the memory of agent and probes."""
    with Many(programs.many) as many:
        before = memory(many.pid)
        try:
            elapsed = _attach_many(many.pid, programs, count)
        except Exception as error:  # frida's own exceptions differ from version to version
            reason = how_it_ended(many.status) or f"{type(error).__name__}: {error}"[:60]
            yield Row(f"activate {count} functions", TOOL, None, "ms", reason)
            return
        time.sleep(SETTLE)
        note = how_it_ended(many.status)
        yield Row(f"activate {count} functions", TOOL, None if note else elapsed, "ms", note)
        if not note:
            yield Row(f"memory of {count} functions", TOOL, memory(many.pid) - before, "KiB")


def _attach_many(pid: int, programs: Programs, count: int) -> float:
    _, exports = _script(pid)
    bias, table = load_bias(pid, programs.many), symbols(programs.many)
    return float(exports.attach("probe", [hex(bias + table[f"f{n:05}"]) for n in range(count)]))
