# SPDX-License-Identifier: LGPL-2.1-or-later
"""Which mistake a program is refused for: each clause has its probes looked for before its meaning, as in DTrace."""

from __future__ import annotations

import pytest

from gilk.engines.dtrace.compiled import DoesNotCompile
from gilk.engines.dtrace.enabling import NoSuchProbe
from tests.lang.d.sessions import consumer


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("none:::{ trace(args[0]->member); }", 1),
        ("BEGIN { x = 1; } END, none::: /x/ { trace(nowhere); }", 2),
        ("none::: { trace(1); } BEGIN { trace(nowhere); }", 1),
    ],
)
def test_a_probe_that_is_not_there_comes_before_a_mistake_in_its_clause(text: str, clause: int) -> None:
    with pytest.raises(NoSuchProbe) as caught:
        consumer(text)
    assert (caught.value.clause, caught.value.tag) == (clause, "D_PDESC_ZERO")


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("BEGIN { trace(nowhere); } none::: { trace(1); }", "D_IDENT_UNDEF"),
        ("none::: { trace(1); } BEGIN { trace(; }", "D_SYNTAX"),
        ("none::: { trace(1); } void x;", "D_DECL_VOIDOBJ"),
        ("syscall:::entry { trace(nowhere); }", "D_IDENT_UNDEF"),
    ],
)
def test_a_mistake_that_is_found_earlier_comes_before_a_probe_that_is_not_there(text: str, tag: str) -> None:
    with pytest.raises(DoesNotCompile) as caught:
        consumer(text)
    assert caught.value.wrong.diagnostic.tag == tag


def test_a_probe_that_may_be_missing_hides_no_mistake() -> None:
    with pytest.raises(DoesNotCompile):
        consumer("#pragma D option zdefs\nnone::: { trace(nowhere); }")
