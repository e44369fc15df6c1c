# SPDX-License-Identifier: LGPL-2.1-or-later
"""The stepper's counts are right for a program written in assembly, whose labels say how often they are reached."""

from __future__ import annotations

import re
import signal
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.oracle import Edge, StepperError, step, step_arrivals, step_counts, step_edges
from tests.programs.build import build, compile_text
from tests.seldom import seldom


def symbols(program: Path) -> dict[str, int]:
    """Name to link-time address, by nm."""
    text = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in text.splitlines()]
    return {row[2]: int(row[0], 16) for row in rows if len(row) == 3}


@pytest.fixture(scope="module")
def labels() -> dict[str, int]:
    return {name: address for name, address in symbols(build("counted")).items() if name.startswith("at_")}


def test_counts_are_those_in_the_labels(labels: dict[str, int]) -> None:
    expected = {("counted", address): int(name.split("_")[1]) for name, address in labels.items()}
    result = step([build("counted")], {"counted": list(labels.values())})
    assert result.counts == expected
    assert result.status == 42


def test_step_counts_raises_for_a_nonzero_exit_status(labels: dict[str, int]) -> None:
    with pytest.raises(StepperError, match="ended with 42"):
        step_counts([build("counted")], {"counted": [1]})


def test_edges_are_the_jumps_that_were_taken(labels: dict[str, int]) -> None:
    edges = step_edges([build("counted")])
    at = {re.sub(r"at_\d+_", "", name): address for name, address in symbols(build("counted")).items()}
    assert Edge("counted", at["branch"], "counted", at["loop"]) in edges
    assert Edge("counted", at["branch"], "counted", at["after"]) in edges
    assert Edge("counted", at["self"], "counted", at["self"]) in edges
    assert Edge("counted", at["loop"], "counted", at["leaf"]) in edges
    assert Edge("counted", at["return"], "counted", at["branch"] - 2) in edges
    assert not any(edge.to == at["handler"] for edge in edges)
    assert not any(edge.source == at["never"] or edge.to == at["never"] for edge in edges)


def test_threads_are_counted_from_the_entry_on() -> None:
    program = build("hot8", "static")
    names = symbols(program)
    result = step([program, "5"], {"hot8": [names["hot"], names["hot_asm"]]}, start="entry")
    assert result.stdout == b"calls hot 40\ncalls hot_asm 40\nok hot8\n"
    assert result.counts == {("hot8", names["hot"]): 40, ("hot8", names["hot_asm"]): 40}


def test_signals_reach_their_handlers() -> None:
    program = build("setjmp", "static")
    dive = symbols(program)["dive"]
    result = step([program, "3"], {"setjmp": [dive]}, start="entry")
    assert (result.status, result.stdout, result.counts) == (0, b"ok setjmp\n", {("setjmp", dive): 93})


def test_a_library_opened_later_is_counted() -> None:
    build("plugin")
    program = build("dlopen")
    hot = symbols(program.with_name("plugin.so"))["plugin_hot"]
    assert step_counts([program, "2"], {"plugin.so": [hot]}, start="entry") == {("plugin.so", hot): 20}


@pytest.mark.parametrize("number", seldom([signal.SIGTRAP, signal.SIGKILL, signal.SIGTERM], 1))
def test_a_death_by_signal_is_passed_on(number: int, tmp_path: Path) -> None:
    text = f"#include <signal.h>\nint main(void) {{ raise({int(number)}); return 0; }}\n"
    program = compile_text(tmp_path, "dies", text, "-static")
    assert step([program], {}, start="entry").status == -number


@pytest.mark.parametrize(("children", "expected"), seldom([(True, 150), (False, 100)], 1))
def test_children_are_counted_on_request(children: bool, expected: int) -> None:
    program = build("fork", "static")
    hot = symbols(program)["hot"]
    result = step([program, "1"], {"fork": [hot]}, start="entry", children=children)
    assert result.counts == {("fork", hot): expected}


@pytest.mark.stress
def test_counting_goes_on_after_exec() -> None:
    program = build("exec", "static")
    hot = symbols(program)["hot"]
    result = step([program, "2"], {"exec": [hot]}, start="entry")
    assert (result.status, result.counts) == (0, {("exec", hot): 200})


def test_an_unknown_command_is_an_error() -> None:
    with pytest.raises(StepperError, match="no/such/file"):
        step(["/no/such/file"], {})


def test_arrivals_tell_how_control_reached_an_address() -> None:
    program = build("tailcall", "static")
    names = symbols(program)
    found, whole = step_arrivals([program, "5"], {"tailcall": [names[f"state_{x}"] for x in "abc"]}, start="entry")
    assert whole
    assert found[0].how == "c"
    assert {one.how for one in found} == {"c", "j"}
    for before, after in pairwise(found):
        if after.how == "j":  # a jump from one to the other, on the same stack
            assert (after.sp, after.address != before.address) == (before.sp, True)


def test_arrivals_end_after_the_given_number_of_steps() -> None:
    program = build("hot8", "static")
    hot = symbols(program)["hot"]
    some, whole = step_arrivals([program, "1"], {"hot8": [hot]}, start="entry", steps=20_000)
    assert not whole
    assert all(one.address == hot for one in some)


def test_a_signal_handler_is_reached_by_a_signal(tmp_path: Path) -> None:
    text = (
        "#include <signal.h>\nvoid handler(int n) { (void)n; }\n"
        "int main(void) { signal(SIGUSR1, handler); return raise(SIGUSR1); }\n"
    )
    program = compile_text(tmp_path, "handles", text, "-static", "-no-pie")
    found, _ = step_arrivals([program], {"handles": [symbols(program)["handler"]]}, start="entry")
    assert [one.how for one in found] == ["s"]
