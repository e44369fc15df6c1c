# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calls whose entry and return are of different functions, or at different heights of the stack."""

from __future__ import annotations

from gilk.trace.about import Tally
from gilk.trace.flow_build import build
from tests.trace.machine import about, samples

Event = tuple[str, str, int]  # function, entry or return, stack pointer


def seen(*events: Event) -> list[tuple[str, str, int]]:
    """Function, state and depth of each call; main was entered at 1000 before."""
    whole: list[Event] = [*events, ("main", "return", 1000)]
    rows = [(10 * n, 1, 1, name, "user", f"time-{kind}", sp) for n, (name, kind, sp) in enumerate(whole)]
    table = build(samples(rows), about(), Tally()).table.to_pylist()
    found = [(row["function"], row["state"], row["depth"]) for row in table]
    assert found[0] == ("main", "before", 0)
    return found[1:]


def test_an_entry_and_a_return_of_two_functions_are_one_call() -> None:
    once: list[Event] = [("mempcpy", "entry", 900), ("memcpy", "return", 900)]
    assert seen(*once, *once) == [("mempcpy", "whole", 1), ("mempcpy", "whole", 1)]


def test_calls_may_be_made_between_entry_and_return_of_two_functions() -> None:
    assert seen(("f", "entry", 900), ("g", "entry", 800), ("g", "return", 800), ("h", "return", 900)) == [
        ("f", "whole", 1),
        ("g", "whole", 2),
    ]


def test_an_abandoned_entry_is_not_joined_with_a_later_return() -> None:
    """f was left, as g shows; the return at the same height belongs to something else, which was not entered before
    either."""
    found = seen(("f", "entry", 900), ("g", "entry", 950), ("g", "return", 950), ("h", "return", 900))
    assert found == [("f", "left", 1), ("g", "whole", 1)]


def test_a_part_entered_and_left_by_jumps_is_no_call() -> None:
    """The part belongs to f, which has called g from there, and goes on after that."""
    part: list[Event] = [("g", "entry", 860), ("g", "return", 860), ("part", "return", 868)]
    assert seen(("f", "entry", 900), *part, ("f", "return", 900)) == [("f", "whole", 1), ("g", "whole", 2)]


def test_a_function_that_returns_with_a_higher_stack_pointer_is_one_call() -> None:
    def resolve(sp: int) -> list[Event]:
        return [("resolve", "entry", sp), ("fixup", "entry", sp - 300), ("fixup", "return", sp - 300),
                ("resolve", "return", sp + 16), ("f", "entry", sp + 16), ("f", "return", sp + 16)]  # fmt: skip

    each = [("resolve", "whole", 1), ("fixup", "whole", 2), ("f", "whole", 1)]
    # The second return is at the height of the first entry.
    assert seen(*resolve(884), *resolve(868), *resolve(884)) == each * 3


def test_an_abandoned_recursive_call_is_not_joined() -> None:
    """The outer call was entered before the trace; the inner one was left by a jump into the outer one."""
    recursion: list[Event] = [("d", "entry", 800), ("d", "return", 800), ("d", "entry", 884), ("d", "return", 900)]
    assert seen(*recursion) == [("d", "before", 1), ("d", "whole", 2), ("d", "left", 2)]
