# SPDX-License-Identifier: LGPL-2.1-or-later
"""Control flow in the model agrees with a program: the compiler's hooks give events, backtrace(3) the stacks.

The program recurses at random, and jumps out with longjmp.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from gilk.lang.aspect.automaton import ControlFlow
from gilk.lang.aspect.events import read_events
from gilk.lang.aspect.model import AspectModel
from tests.lang.aspect.automata import calling, element, sequence

PROGRAM = Path(__file__).with_name("flow.c")


@dataclass(frozen=True)
class Told:
    """A line of the program: the event, and for a call the real stack, outermost first."""

    kind: str
    word: str
    stack: tuple[str, ...] = ()


@pytest.fixture(scope="module", params=[1, 2])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Told]:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    program = tmp_path_factory.mktemp("flow") / "flow"
    options = ["-O0", "-rdynamic", "-finstrument-functions", f"-DSEED={request.param}", "-ldl", "-w"]
    subprocess.run(["gcc", str(PROGRAM), "-o", str(program), *options], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    assert int(done.stderr) > 5, "it jumps"
    return [Told(kind, word, tuple(rest)) for kind, word, *rest in map(str.split, done.stdout.splitlines())]


OWN = ("zoo", "foo", "bar", "homer", "main")


def fits(stack: tuple[str, ...], functions: tuple[str, ...], strict: bool) -> bool:
    """The definition: the functions are the end of the stack, or are in it in that order with the last at its end."""
    own = [one for one in stack if one in OWN]
    if strict:
        return tuple(own[-len(functions) :]) == functions
    if not own or own[-1] != functions[-1]:
        return False
    rest = iter(own[:-1])
    return all(one in rest for one in functions[:-1])


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    "functions",
    [("zoo", "bar"), ("zoo", "foo", "bar"), pytest.param(("foo", "foo"), marks=pytest.mark.stress),
     pytest.param(("bar", "zoo", "foo", "homer"), marks=pytest.mark.stress)],
)  # fmt: skip
def test_the_model_matches_where_the_stack_says(told: list[Told], functions: tuple[str, ...], strict: bool) -> None:
    *outer, last = map(calling, functions)
    model = AspectModel((sequence(element(ControlFlow(strict, tuple(outer), last))),))
    expected, found = [], []
    for one in told:
        number = int(one.word) if one.kind == "unwind" else one.word
        (event,) = read_events([json.dumps({one.kind: number})])
        found.append(bool(model.step(event)))
        expected.append(one.kind == "call" and fits(one.stack, functions, strict))
    assert found == expected and any(expected)


def test_without_jump_events_the_model_is_wrong(told: list[Told]) -> None:
    """Negative control: without jump events, the model still has the frames that a jump has left."""
    model = AspectModel((sequence(element(ControlFlow(False, (calling("foo"),), calling("bar")))),))
    steps = [one for one in told if one.kind != "unwind"]
    found = [bool(model.step(*read_events([json.dumps({one.kind: one.word})]))) for one in steps]
    assert found != [one.kind == "call" and fits(one.stack, ("foo", "bar"), False) for one in steps]


def test_the_definition_tells_stacks_apart() -> None:
    assert fits(("main", "zoo", "homer", "bar"), ("zoo", "bar"), False)
    assert not fits(("main", "zoo", "homer", "bar"), ("zoo", "bar"), True)
    assert not fits(("main", "bar", "zoo"), ("zoo", "bar"), False)
