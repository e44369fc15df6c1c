# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs as checked code: those of tests/lang/d that run, and some more."""

from __future__ import annotations

import functools

from gilk.engines.dtrace.kernel_clauses import printed
from gilk.errors import UsageError
from gilk.lang.d.kernel_code import KernelCode
from tests.lang.d.programs import HERE
from tests.lang.d.sessions import consumer

_TEXTS = (
    'BEGIN /pid == 1 && execname != "x"/ { @[execname, probefunc, arg0] = quantize(arg1 - arg2, 3); }',
    "BEGIN { self->t = timestamp; x[arg0, pid] = self->t++; } "
    "END /self->t/ { @a = avg(timestamp - self->t); self->t = 0; }",
    "BEGIN { this->p = (int *)alloca(arg0); this->p[arg1] += 5; bcopy(this->p, alloca(64), arg2); "
    'copyinto(arg3, 8, alloca(8)); bcopy("text", (char *)this->p + 1, 4); ++*this->p; }',
    "BEGIN { copyout(alloca(8), arg0, arg1); copyoutstr(execname, arg2, arg3); chill(arg4); raise(arg5); stop(); }",
    'BEGIN { printf("%d %s %s", arg0 / arg1 % 7, copyinstr(arg2), probename); exit(arg3 >> 2); }',
)


@functools.cache
def codes() -> tuple[KernelCode, ...]:
    texts = [
        *_TEXTS,
        *(path.read_text() for path in sorted(HERE.glob("run/tst.*.d")) if not _takes_arguments(path.stem)),
    ]
    return tuple(code for text in texts if (code := _code(text)) is not None)


def _takes_arguments(stem: str) -> bool:
    return (HERE / "run" / f"{stem}.args").exists()


def _code(text: str) -> KernelCode | None:
    """The checked code of a program; None if it is refused."""
    session = consumer(text)
    try:
        return printed(session.compiled.program, session.enabled, session.enabled.groups(), session.options)
    except UsageError:
        return None
