# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure other ways to do what woven aspects do, in the run and with the program of bench/aspect.py.

LD_PRELOAD is what a user can write by hand, and the limit for calls; it needs a new start of the program. Frida
replaces and observes functions of the running program by C. gdb watches a variable with a debug register of the
processor. gcc's -finstrument-functions tells functions of the program, built anew, which calls are under way.
uprobes and bpftrace change the running kernel: bench/peer_uprobe.py and bench/lab_uprobe.py measure them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gilk
from bench.advice import compile_to, timed
from bench.measure import Row, load_bias, symbols

Program = subprocess.Popen[str]
Ask = Callable[[Program, str], float]

_NEXT = """
#define _GNU_SOURCE
#include <dlfcn.h>
#define NEXT(name) ({ static long (*next)(long, long); if (!next) next = (long (*)(long, long))dlsym(RTLD_NEXT, #name); next; })
static volatile long kept;
"""  # noqa: E501
#: Libraries for LD_PRELOAD, by the row of bench/aspect.py for which they stand, each with the command of its round.
PRELOADED = {
    "call before": ("1", "long one(long a, long b) { kept++; return NEXT(one)(a, b); }"),
    "call in place, without the call": ("1", "long one(long a, long b) { return 0; }"),
    "call in place, one proceed()": ("1", "long one(long a, long b) { return NEXT(one)(a, b); }"),
    "call after, an argument kept": (
        "1", "long one(long a, long b) { long r = NEXT(one)(a, b); if (r == a) kept++; return r; }"
    ),
    "sequence of three, perthread": ("3", """
        static __thread long stage, key;
        long one(long k, long b) { key = k; stage = 1; return NEXT(one)(k, b); }
        long two(long k, long b) { if (stage == 1 && key == k) stage = 2; return NEXT(two)(k, b); }
        long three(long k, long b) { if (stage == 2 && key == k) { stage = 0; kept++; } return NEXT(three)(k, b); }"""),
}  # fmt: skip

#: What gcc's instrumented functions call: a stack of the calls under way, and a look at the one below.
INSTRUMENTED = """
#define PLAIN __attribute__((no_instrument_function))
static __thread void *calls[256];
static __thread long depth;
static volatile long inside;
long one(long a, long b), outer(long a, long b);
PLAIN void __cyg_profile_func_enter(void *function, void *caller)
{
	(void)caller;
	if (function == (void *)one && depth && calls[depth - 1] == (void *)outer) inside++;
	calls[depth++ & 255] = function;
}
PLAIN void __cyg_profile_func_exit(void *function, void *caller) { (void)function, (void)caller; depth--; }
"""
FLOWS = {"control flow of two, inside": "f", "control flow of two, not inside": "1"}

#: C for Frida. It may write only to memory that the script gives it.
FRIDA_C = r"""
#include <gum/guminterceptor.h>
extern volatile long hits;
extern void *next[1];
void before(GumInvocationContext *ic) { hits++; }
void entered(GumInvocationContext *ic)
{
  *(void **)gum_invocation_context_get_listener_invocation_data(ic, 8) = gum_invocation_context_get_nth_argument(ic, 0);
}
void left(GumInvocationContext *ic)
{
  void *argument = *(void **)gum_invocation_context_get_listener_invocation_data(ic, 8);
  if (gum_invocation_context_get_return_value(ic) == argument) hits++;
}
long instead(long a, long b) { return 0; }
long around(long a, long b) { return ((long (*)(long, long))next[0])(a, b); }
"""
FRIDA = """
const hits = Memory.alloc(8), next = Memory.alloc(8);
const code = new CModule(SOURCE, { hits, next });
const forms = {
  before: at => Interceptor.attach(at, code.before),
  after: at => Interceptor.attach(at, { onEnter: code.entered, onLeave: code.left }),
  instead: at => Interceptor.replace(at, code.instead), // replaceFast() has no room in short functions
  around: at => { next.writePointer(at); Interceptor.replace(at, code.around); },
};
rpc.exports = { put(form, address) { forms[form](ptr(address)); Interceptor.flush(); } };
"""
FRIDAS = {
    "call before": "before",
    "call in place, without the call": "instead",
    "call in place, one proceed()": "around",
    "call after, an argument kept": "after",
}
GDB = "set pagination off\nwatch *(long *)&counter\ncommands\nsilent\ncontinue\nend\ncontinue\n"


@dataclass(frozen=True)
class Measured:
    """The ns of a round with a peer, and without it in a process of the same program."""

    took: float
    alone: float


def rows(place: Path, main: Path, library: str, ask: Ask) -> Iterator[Row]:
    """Every figure. ``main``: the measured program; ``library``: the C of its library; ``ask``: asks it for a round."""
    for name, (what, text) in PRELOADED.items():
        yield from _told(name, "LD_PRELOAD", partial(_preloaded, place, main, what, text, ask))
    for name, form in FRIDAS.items():
        yield from _told(name, "Frida", partial(_by_frida, main, form, ask))
    for name, what in FLOWS.items():
        yield from _told(name, "-finstrument-functions", partial(_instrumented, place, main, library, what, ask))
    yield from _told("global write, old and value, before", "gdb watch", partial(_watched, place, main, ask))
    yield from _told("global write, old and value, after", "gilk, debugreg", partial(_trapped, place, main, ask))


def _told(name: str, tool: str, measure: Callable[[], Measured]) -> Iterator[Row]:
    """The rows of a peer; one row with the reason if it cannot be measured here."""
    try:
        found = measure()
    except Exception as error:  # peers fail in ways of their own
        yield Row(f"aspect: {name}", tool, None, note=f"{type(error).__name__}: {error}"[:60])
        return
    yield Row(f"aspect: {name}", tool, found.took)
    yield Row(f"aspect: {name}", f"times plain, {tool}", found.took / found.alone, "x")


def _alone(main: Path, what: str, ask: Ask) -> float:
    with timed(main) as program:
        return ask(program.process, what)


def _preloaded(place: Path, main: Path, what: str, text: str, ask: Ask) -> Measured:
    made = compile_to(place, "preloaded.so", _NEXT + text, "-shared", "-fPIC", "-w")
    with timed(main, made) as program:
        return Measured(ask(program.process, what), _alone(main, what, ask))


def _by_frida(main: Path, form: str, ask: Ask) -> Measured:
    import frida

    with timed(main) as program:
        alone = ask(program.process, "1")
        session: Any = frida.attach(program.process.pid)
        script = session.create_script(FRIDA.replace("SOURCE", json.dumps(FRIDA_C)))
        script.load()
        path = main.parent / "libwork.so"
        script.exports_sync.put(form, hex(load_bias(program.process.pid, path) + symbols(path)["one"]))
        took = ask(program.process, "1")
        session.detach()
        return Measured(took, alone)


def _instrumented(place: Path, main: Path, library: str, what: str, ask: Ask) -> Measured:
    """Measured with the library alone built anew, so that the round itself is the same."""
    built = place / "instrumented"
    built.mkdir(exist_ok=True)
    options = ("-shared", "-fPIC", "-fno-optimize-sibling-calls", "-finstrument-functions")
    made = compile_to(built, "libwork.so", INSTRUMENTED + library, *options)
    with timed(main, made) as program:
        return Measured(ask(program.process, what), _alone(main, what, ask))


def _watched(place: Path, main: Path, ask: Ask) -> Measured:
    """Writes of a variable that gdb watches with a debug register, and goes on after each; a short round."""
    alone = _alone(main, "w", ask)
    with timed(main) as program, _gdb(place, program.process.pid):
        return Measured(ask(program.process, "~w"), alone)


def _trapped(place: Path, main: Path, ask: Ask) -> Measured:
    """The same writes, whose advice is run by `debugreg`."""
    file = place / "trapped.aspect"
    file.write_text("debugreg writeGlobal(long counter) && old(o) && value(v) then after { };")
    alone = _alone(main, "w", ask)
    with timed(main) as program, gilk.attach(program.process.pid) as target, gilk.weave(file, target):
        return Measured(ask(program.process, "~w"), alone)


@contextmanager
def _gdb(place: Path, pid: int) -> Iterator[None]:
    """A context in which gdb watches the process's counter; gdb ends with the process."""
    script = place / "watch.gdb"
    script.write_text(GDB)
    words = ["gdb", "-nx", "-q", "-p", str(pid), "-batch", "-x", str(script)]
    gdb = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert gdb.stdout
    try:
        if not any("Hardware watchpoint" in line for line in gdb.stdout):
            raise RuntimeError("gdb has no hardware watchpoint here")
        yield
    finally:
        gdb.terminate()
        gdb.communicate()
