# SPDX-License-Identifier: LGPL-2.1-or-later
"""Random commands of gilk for a program, as a user might type them: combinations of ordinary uses."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.behaviour.harness import ROOT
from tests.fuzz.subjects import LIBC, Subject

_EXAMPLES = ROOT / "examples"


@dataclass(frozen=True)
class Asked:
    """A command: its words, without those that name the process. ``files`` are texts that it reads, by name.

    If ``last``, options of its own follow the program's name, as with dtrace's -c. If ``says``, it may write to the
    standard output of a launched program.
    """

    kind: str
    words: tuple[str, ...]
    says: bool = False
    files: tuple[tuple[str, str], ...] = ()


def asked(subject: Subject, chance: random.Random) -> Asked:
    makers: list[tuple[Callable[[Subject, random.Random], Asked], int]] = [
        (_run, 6), (_trace, 7), (_dtrace, 5), (_question, 1), (_slow, 1), (_weave, 2),
    ]  # fmt: skip
    return chance.choices([make for make, _ in makers], [weight for _, weight in makers])[0](subject, chance)


# Points.


def _image(subject: Subject, chance: random.Random) -> str:
    return chance.choice(["", f"{subject.image}:"])


def _functions(subject: Subject, chance: random.Random) -> list[str]:
    """Names of functions of the program or of a library: one function, two, a few, a glob, or all."""
    if subject.libraries and chance.random() < 0.25:
        return [
            f"{chance.choice(['libc', 'libc.so.6'])}:{name}"
            for name in chance.sample(LIBC, chance.choice([1, 1, 2, 4]))
        ]
    image = _image(subject, chance)
    kind = chance.random()
    if kind < 0.65:
        several = min(chance.choice([1, 1, 1, 2, 2, 5]), len(subject.functions))
        return [image + name for name in chance.sample(subject.functions, several)]
    if kind < 0.85:
        name = chance.choice(subject.functions)
        return [f"{image}{name[: chance.randint(1, len(name))]}*"]
    return [f"{image}*"]


def _where(chance: random.Random) -> str:
    common = ["entry", "entry", "entry", "return", "return", "blocks", "blocks-post"]
    rare = [f"@{chance.randint(0, 4)}:pre", f"@{chance.randint(0, 4)}:post", f"+{chance.randint(0, 60):#x}"]
    return chance.choice(common if chance.random() < 0.8 else rare)


def _insert(subject: Subject, chance: random.Random) -> list[str]:
    if subject.lines and chance.random() < 0.1:
        return [f"{chance.choice(subject.lines)}={chance.choice(['count', 'stamp', 'args', 'regs'])}"]
    if chance.random() < 0.12:
        way = chance.choice(
            ["@path", "@time", "@calls", "@edges", "@coverage", "@calls:regs", "@path:args", "@edges:stamp"]
        )
        return [f"{name}={way}" for name in _functions(subject, chance)]
    where = _where(chance)
    instruments = ["count", "count", "stamp", "args", "regs", f"{_EXAMPLES}/simple_instr.c:simple_instr"]
    what = chance.choice([*instruments, "time", "time"] if where == "entry" else instruments)
    return [f"{name}:{where}={what}" for name in _functions(subject, chance)]


def _run(subject: Subject, chance: random.Random) -> Asked:
    inserts = [each for _ in range(chance.choice([1, 1, 2, 3])) for each in _insert(subject, chance)]
    words = ["run", *(word for each in inserts for word in ("-i", each))]
    words += ["-o", "FILE.parquet"] if chance.random() < 0.5 else []
    words += (
        ["--coverage", chance.choice(["FILE.info", "FILE.drcov"])]
        if any("blocks=count" in i or "@cov" in i for i in inserts)
        else []
    )
    words += _plain_options(chance, "-q", "-v", "--mangled")
    return Asked("run", tuple(words))


def _plain_options(chance: random.Random, *those: str) -> list[str]:
    return [each for each in those if chance.random() < 0.2]


# Traces.


def _event(subject: Subject, chance: random.Random, stop: bool) -> str:
    if chance.random() < 0.5:
        name = chance.choice(
            [
                *chance.sample(subject.functions, 1),
                "main",
                *([f"libc:{chance.choice(LIBC)}"] if subject.libraries else []),
            ]
        )
        return f"{chance.choice(['call', 'return'])}:{name}{chance.choice(['', '', ':2', ':7'])}"
    times = chance.choice(["0", "5ms", "60ms", "300ms"])
    return chance.choice([f"for:{times}" if stop else "now", f"after:{times}", "exit" if stop else "now"])


def _trace(subject: Subject, chance: random.Random) -> Asked:
    words = ["trace", "-o", "FILE.parquet"]
    words += ["--start", _event(subject, chance, stop=False)] if chance.random() < 0.5 else []
    words += ["--stop", _event(subject, chance, stop=True)] if chance.random() < 0.5 else []
    if chance.random() < 0.8:
        scope = [each for _ in range(chance.choice([1, 1, 2])) for each in _functions(subject, chance)]
        words += [word for each in scope for word in ("--scope", each)]
    if chance.random() < 0.2:
        words += [word for each in _functions(subject, chance) for word in ("--skip", each)]
    words += ["--depth", str(chance.choice([1, 2, 3, 8]))] if chance.random() < 0.2 else []
    words += _plain_options(chance, "--all", "-q", "-v", "--mangled")
    return Asked("trace", tuple(words))


# D.

_CLAUSES = (
    "{ @[probefunc] = count(); }", "{ self->t = timestamp; }", "/self->t/ { @ = quantize(timestamp - self->t); self->t = 0; }",
    "{ @[ustack(4)] = count(); }", "{ @[arg0] = sum(arg1); }", '{ printf("%d %s\\n", n++, probefunc); }', "/n++ == 3/ { exit(0); }",
    "{ trace(arg0); }", "{ @a = max(arg0); @b = avg(arg1); @c = stddev(arg1); clear(@a); }", '/execname != "x"/ { @[execname, tid] = lquantize(arg0, 0, 100, 10); }',
    "{ self->d++; @d = max(self->d); }", "{ jstack(); }", "{ copyin(uregs[R_RSP], 8); }", "{ this->x = uregs[R_RDI]; @[this->x & 7] = count(); }",
)  # fmt: skip
_OTHERS = ("BEGIN { n = 0; }", "END { printa(@); }", "tick-50ms { n++; }", "profile-97 { @p[ustack(3)] = count(); }", "syscall:::entry { @s[probefunc] = count(); }",
           "syscall::write:return { @w = sum(arg1); }", "proc:::exit { trace(arg0); }", "syscall::read:entry { self->r = timestamp; } syscall::read:return /self->r/ { @r = max(timestamp - self->r); }")  # fmt: skip


def _d_points(subject: Subject, chance: random.Random) -> list[str]:
    where = chance.choice(["entry", "entry", "return", "", f"{chance.choice([0, 1, 4, 9]):x}"])
    made = []
    for function in _functions(subject, chance):
        image, _, name = function.rpartition(":")
        made.append(f"pid$target:{image or 'a.out'}:{name}:{where}")
    return made


def _dtrace(subject: Subject, chance: random.Random) -> Asked:
    clauses = [
        f"{', '.join(_d_points(subject, chance))} {chance.choice(_CLAUSES)}" for _ in range(chance.choice([1, 1, 2, 3]))
    ]
    clauses += [chance.choice(_OTHERS) for _ in range(chance.choice([0, 0, 1, 2]))]
    words = ["dtrace", *(word for each in clauses for word in ("-n", each)), "-o", "FILE.txt"]
    words += _plain_options(chance, "-q", "-F", "-Z", "-w", "--json")
    words += chance.choice(
        [[], [], [], ["-x", "aggsize=64k"], ["-b", "64k"], ["-x", "bufpolicy=fill"], ["-x", "switchrate=20ms"]]
    )
    return Asked("dtrace", tuple(words))


# Questions, and aspects.


def _question(subject: Subject, chance: random.Random) -> Asked:
    kind = chance.choice(["syscalls", "mallocs", "locks"])
    return Asked(
        kind, (kind, "--limit", str(chance.choice([0, 3])), *_plain_options(chance, "-q", "--json")), says=True
    )


def _slow(subject: Subject, chance: random.Random) -> Asked:
    function = _functions(subject, chance)[0]
    return Asked(
        "slow",
        (
            "slow",
            "--longer-than",
            chance.choice(["0", "1ns", "1us", "1ms"]),
            "--depth",
            str(chance.choice([1, 5])),
            function,
        ),
        says=True,
    )


_ADVICE = ("then before { add(hits, 1, 1); };", "then after { add(hits, 2, 1); };", "then inplace { add(hits, 3, 1); return proceed(); };", "&& return(r) && if (r) then { add(hits, 4, r); };")  # fmt: skip


def _weave(subject: Subject, chance: random.Random) -> Asked:
    text = "table hits key(int) sum;\n"
    for function in _functions(subject, chance):
        if "*" in function:  # otherwise very many functions would be compiled
            function = function.replace("*", "") + chance.choice(["[0-3]*", "[w-z]*"])
        text += f"call(long {function}(..)) {chance.choice(_ADVICE)}\n"
    return Asked(
        "weave",
        ("weave", "FILE.aspect", *_plain_options(chance, "-q", "--dry-run")),
        says=True,
        files=(("FILE.aspect", text),),
    )
