# SPDX-License-Identifier: LGPL-2.1-or-later
"""A signal handler that interrupts a patch at any instruction sees the registers, the stack pointer and the flags that
the original code has there, and what it writes into them is what the code goes on with. The oracle is the processor:
tests/programs/bare/wholestate.c steps through a function without instruments, and through an equal one with them."""

from __future__ import annotations

import pytest

from tests.behaviour.harness import run_gilk
from tests.programs.build import build

ALL = ("blocks=count", "blocks=stamp", "blocks-post=args", "entry=time")


@pytest.mark.parametrize("how", ["look", "change"])
@pytest.mark.parametrize(
    "instruments", [pytest.param(ALL[:1], id="count", marks=pytest.mark.stress), pytest.param(ALL, id="all")]
)
def test_a_handler_sees_the_original_state_at_each_instruction_of_a_patch(
    instruments: tuple[str, ...], how: str
) -> None:
    """The program tells how many instructions of patches there were in each round at least."""
    asked = [word for each in instruments for word in ("-i", f"walked:{each}")]
    done = run_gilk("run", *asked, "--", build("wholestate"), how, timeout=400)
    assert done.returncode == 0 and "ok wholestate" in done.stdout, done.stderr
    steps = int(done.stdout.split("ok wholestate ")[1].split()[0])
    assert steps > 40 * len(instruments), "the patches were not stepped through"
