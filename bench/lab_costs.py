# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure the cost of a hit in the kernel, in guest instructions: gilk, ftrace, kprobes and BPF in the same boot.

Each tool adds to a counter of the processor, unless the row says otherwise. Under emulation every instruction takes one
nanosecond and one tick of the time stamp counter, so the figures are exact, and the same on every machine. They
understate tools that trap: an int3 and the return from it are one instruction each here, and hundreds of cycles on a
real processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from bench.lab_scene import Scene
from bench.measure import HERE, Programs, Row
from gilk import GilkError
from gilk.lab import Machine, boot
from gilk.session.request import Builtin, CFunction

UNIT = "instructions"
TICK = CFunction(HERE / "targets" / "lab_tick.c", "tick")
ENTRY, RETURN, INSIDE = "kernel: count at entry", "kernel: count at return", "kernel: count at an instruction"
TRAPPED = "kernel: count at an instruction, by int3"
CALLED, RECORDED = "kernel: C instrument at entry", "kernel: entry, recorded"

#: Clauses of D at the function's entry, or at its entry and return.
CLAUSES = {
    "kernel D: count": "fbt::%s:entry { @ = count(); }",
    "kernel D: count at return": "fbt::%s:return { @ = count(); }",
    "kernel D: count at the return of a call that goes on elsewhere": "fbt::x64_sys_call:return { @ = count(); }",
    "kernel D: a predicate that is false": "fbt::%s:entry /arg1 == 77/ { @ = count(); }",
    "kernel D: count by an argument": "fbt::%s:entry { @[arg1] = count(); }",
    "kernel D: quantize": "fbt::%s:entry { @ = quantize(arg1); }",
    "kernel D: count by execname": "fbt::%s:entry { @[execname] = count(); }",
    "kernel D: a record of two numbers": 'fbt::%s:entry { printf("%d %d", arg0, arg1); }',
    "kernel D: count by stack()": "fbt::%s:entry { @[stack()] = count(); }",
    "kernel D: count by ustack()": "fbt::%s:entry { @[ustack()] = count(); }",
    "kernel D: time of a call, by probefunc": """
        fbt::%s:entry { self->t = timestamp; }
        fbt::%s:return /self->t/ { @[probefunc] = quantize(timestamp - self->t); self->t = 0; }""",
}
#: Elements of aspects at the function's entry, or at its entry and return.
ASPECTS = {
    "kernel aspect: a condition that is false": "K: CALL && if (type == 77);",
    "kernel aspect: a condition on memory, false": "K: CALL && if (task->prio == 777);",
    "kernel aspect: matched": "K: CALL;",
    "kernel aspect: matched, a table": "table t key(int) count; K: CALL then { add(t, type, 1); };",
    "kernel aspect: after, the result compared": "K: CALL && return(r) && if (r == -77);",
    "kernel aspect: sequence of two, a match each": "perthread seq(K: CALL && if (type >= 0); K: CALL && if (task));",
}
#: The text of a row, its tool, and how its figure is measured.
COSTS: tuple[tuple[str, str, Callable[[Scene], float]], ...] = (
    (ENTRY, "gilk", lambda scene: scene.gilk("entry", Builtin.COUNT)),
    (ENTRY, "ftrace", lambda scene: scene.by_peer("ftrace")),
    (ENTRY, "ftrace, registers", lambda scene: scene.by_peer("ftrace-regs")),
    (ENTRY, "kprobe", lambda scene: scene.by_peer("kprobe")),
    (ENTRY, "BPF, fentry", lambda scene: scene.by_bpf("fentry", scene.type_number)),
    (ENTRY, "BPF, kprobe", lambda scene: scene.by_bpf("kprobe", scene.function)),
    (RETURN, "gilk", lambda scene: scene.gilk("return", Builtin.COUNT)),
    (RETURN, "kretprobe", lambda scene: scene.by_peer("kretprobe")),
    (INSIDE, "gilk", lambda scene: scene.gilk(f"+{scene.inside:#x}", Builtin.COUNT)),
    (INSIDE, "kprobe", lambda scene: scene.optimised()),
    (TRAPPED, "kprobe", lambda scene: scene.trapped()),
    (CALLED, "gilk", lambda scene: scene.gilk("entry", TICK)),
    (RECORDED, "gilk", lambda scene: scene.gilk("entry", Builtin.STAMP)),
    (RECORDED, "ftrace", lambda scene: scene.traced()),
)  # fmt: skip


def rows(programs: Programs, counts: tuple[int, ...]) -> Iterator[Row]:
    """Every figure. A row that failed says why; if no machine boots, a single row says so."""
    try:
        with boot(Machine(memory=2048, icount=True)) as vm:
            scene = Scene(vm)
            for what, tool, cost in COSTS:
                yield _row(what, tool, cost, scene)
            for what, text in ASPECTS.items():
                yield _row(what, "gilk", partial(Scene.aspects, text=text), scene)
            for what, text in CLAUSES.items():
                yield _row(what, "gilk", partial(Scene.clauses, text=text), scene)
    except (GilkError, ValueError) as error:
        yield Row(ENTRY, "gilk", None, UNIT, str(error))


def _row(what: str, tool: str, cost: Callable[[Scene], float], scene: Scene) -> Row:
    try:
        return Row(what, tool, round(cost(scene), 1), UNIT)
    except (GilkError, ValueError) as error:
        return Row(what, tool, None, UNIT, str(error))
