# SPDX-License-Identifier: LGPL-2.1-or-later
"""Loads and stores through pointers reach the scratch memory of the clause, and no byte before or behind it."""

from __future__ import annotations

import pytest

from gilk.render.d.messages import Fault as Kind
from gilk.trace.d.events import Faulted
from tests.lang.d.sessions import happenings

BEFORE = """
struct s { int a; int b : 3; long c[2]; }; struct s whole; struct s *old; int n;
BEGIN { old = (struct s *)alloca(sizeof (struct s)); old->a = 1; n = 1; }
"""


def faults(statements: str) -> list[int]:
    found = happenings(f"{BEFORE} BEGIN {{ {statements} }} BEGIN {{ exit(0); }}")
    return [one.kind for one in found if isinstance(one, Faulted)]


@pytest.mark.parametrize(
    "statements",
    [
        "this->p = (int *)alloca(8); this->p[1] = 1; this->p[n - 1] = 2;",
        "this->p = (struct s *)alloca(24); this->p->b = 1; this->p->c[n] = 5; *this->p = whole;",
        "this->p = (char *)alloca(3); *this->p++ = 1; *this->p = 2;",
    ],
)
def test_stores_inside_scratch_memory_work(statements: str) -> None:
    assert faults(statements) == []


@pytest.mark.parametrize(
    "statements",
    [
        "this->p = (int *)alloca(8); this->p[2] = 1;",
        "this->p = (int *)alloca(8); this->p[0 - n] = 1;",
        "this->p = (char *)alloca(8) + 1; *(long *)this->p = 1;",
        "this->p = (char *)alloca(8) - 1; *(long *)this->p = 1;",
        "this->p = (struct s *)alloca(16); *this->p = whole;",
        "this->p = (struct s *)alloca(16); this->p->c[n] = 1;",
        "old->a = 5;",
        "old->b = 5;",
        "this->x = alloca(8); old->c[1]++;",
        "*(int *)arg0 = 1;",
        "*(int *)~arg0 = 1;",
        "((struct s *)&((struct s *)arg0)->c)->b += 1;",
    ],
)
def test_stores_outside_of_scratch_memory_are_faults(statements: str) -> None:
    assert faults(statements) == [Kind.BAD_ADDRESS]


@pytest.mark.parametrize(
    ("statements", "kind"),
    [
        ("this->p = (char *)alloca(15); this->p[14] = n; n = this->p[14];", None),
        ("this->p = (char *)alloca(15); n = this->p[-1];", Kind.BAD_ADDRESS),
        pytest.param("this->p = (char *)alloca(15); n = this->p[16];", Kind.BAD_ADDRESS, marks=pytest.mark.stress),
        pytest.param("this->p = (int *)alloca(10); n = this->p[-1];", Kind.BAD_ADDRESS, marks=pytest.mark.stress),
        ("n = old->a;", Kind.BAD_ADDRESS),
        ("this->p = alloca(16); this->q = alloca(8); bcopy(this->q, this->p, 16);", Kind.BAD_SIZE),
        ("this->p = alloca(4); bcopy(\"long\", this->p, 4);", None),
        ("this->p = (char *)alloca(4); bcopy(\"long\", this->p - 1, 1);", Kind.BAD_ADDRESS),
        ("this->p = (char *)alloca(4); bcopy(\"long\", &this->p[8], 1);", Kind.BAD_ADDRESS),
        ("bcopy(\"long\", alloca(4), -1);", Kind.BAD_SIZE),
    ],
)  # fmt: skip
def test_loads_and_copies_stay_within_scratch_memory(statements: str, kind: Kind | None) -> None:
    assert faults(statements) == ([] if kind is None else [kind])


@pytest.mark.parametrize(
    ("statements", "kind"),
    [
        ("this->a = alloca(300); this->b = alloca(200);", None),
        ("this->a = alloca(300); this->b = alloca(216);", Kind.NO_SCRATCH),
        ("this->a = alloca(300); this->b = strjoin(strjoin(probename, execname), probeprov); alloca(200);", None),
        ('this->s = (string *)alloca(sizeof (string) + 1); *this->s = strjoin(probename, "x");', None),
    ],
)
def test_strings_take_no_memory_that_a_clause_may_ask_for(statements: str, kind: Kind | None) -> None:
    found = happenings(f"#pragma D option scratchsize=512\nBEGIN {{ {statements} }} BEGIN {{ exit(0); }}")
    assert [one.kind for one in found if isinstance(one, Faulted)] == ([] if kind is None else [kind])
