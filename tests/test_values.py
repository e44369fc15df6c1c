# SPDX-License-Identifier: LGPL-2.1-or-later
"""The dataclasses of gilk.values behave like those that the standard library makes of the same classes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from pathlib import Path
from typing import Any

import pytest

from gilk import values

Decorate = Callable[..., Any]
MAKERS = [dataclasses.dataclass, values.dataclass]
SHAPES = [{}, {"frozen": True}, {"slots": True}, {"frozen": True, "slots": True}, {"frozen": True, "eq": False}]


def shape(dataclass: Decorate, options: dict[str, bool]) -> tuple[Any, Any, Any]:
    """A class, a class derived from it, and a class without fields."""

    @dataclass(**options)
    class Base:
        x: int
        names: list[str] = field(default_factory=list)
        y: float = field(default=0.5, compare=False)
        hidden: str = field(default="h", repr=False)
        made: int = field(init=False, default=7)

        def double(self) -> int:
            return 2 * self.x

    @dataclass(**options)
    class Derived(Base):
        z: tuple[int, ...] = ()

        def __post_init__(self) -> None:
            object.__setattr__(self, "made", self.x + 1)

        def double(self) -> int:
            return Base.double(self) + 1

    @dataclass(**options)
    class Empty:
        pass

    return Base, Derived, Empty


def outcome(act: Callable[[], Any]) -> Any:
    """The result of ``act``, or the type and the text of the exception that it raises."""
    try:
        return act()
    except Exception as error:
        return type(error), str(error)


def behaviour(classes: tuple[Any, Any, Any]) -> list[Any]:
    base, derived, empty = classes
    a, b, c = base(1, ["n"]), base(x=1, names=["n"], y=2.5), base(2)
    d, same = derived(3, z=(4,)), derived(3, z=(4,))
    tried = [
        base, lambda: base(1, 2, 3, 4, 5), lambda: base(1, nothing=2), lambda: base(1, made=3),
        lambda: derived("no number"), lambda: setattr(a, "x", 3), lambda: delattr(a, "hidden"),
        lambda: replace(a, x=9), lambda: replace(d, z=()), lambda: a < b,
        lambda: {d: 1} and "can be a key", lambda: {empty()} and "can be a key",
    ]  # fmt: skip
    return [
        repr(a).split("<locals>.")[1], repr(d).split("<locals>.")[1], repr(empty()).split("<locals>.")[1],
        a == b, a == c, d == same, a == d, a == 1, empty() == empty(), a.double(), d.double(), d.made, a.made,
        [each.name for each in fields(d)], base.__match_args__, derived.__match_args__, a.names is base(1).names,
        *(str(outcome(each)).replace("test_values.", "") for each in tried),
        copy.copy(d).z, copy.deepcopy(a).names, sorted(dataclasses.asdict(d).items(), key=str),
    ]  # fmt: skip


@pytest.mark.parametrize("options", SHAPES)
def test_dataclasses_behave_like_the_standard_librarys(options: dict[str, bool]) -> None:
    theirs, ours = (behaviour(shape(made, options)) for made in MAKERS)
    assert ours == theirs


@values.dataclass(frozen=True, slots=True)
class Sent:
    name: str
    numbers: tuple[int, ...] = ()


@values.dataclass(frozen=True, slots=True)
class Own:
    """Methods that a class defines itself stay."""

    x: int

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 5

    def __repr__(self) -> str:
        return "own"


def test_values_can_be_pickled() -> None:
    sent = Sent("a", (1, 2))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        got = pickle.loads(pickle.dumps(sent, protocol))
        assert got == sent and hash(got) == hash(sent) and got is not sent


def test_methods_that_a_class_defines_are_kept() -> None:
    assert (repr(Own(1)), hash(Own(1)), Own(1) == Own(2)) == ("own", 5, True)


def test_frozen_values_cannot_be_changed() -> None:
    sent = Sent("a")
    for act in (lambda: setattr(sent, "name", "b"), lambda: setattr(sent, "other", 1), lambda: delattr(sent, "name")):
        with pytest.raises((FrozenInstanceError, AttributeError)):
            act()
    assert sent == Sent("a")


def test_values_match_patterns_by_position() -> None:
    match Sent("a", (3,)):
        case Sent("a", (number,)):
            assert number == 3
        case _:
            pytest.fail("it does not match")


_INTERRUPTED = """
import random, signal, sys
from gilk.values import dataclass

def interrupt(number, frame):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
caught = 0
for _ in range(1500):
    @dataclass(frozen=True, slots=True)
    class Value:
        x: int
        y: int = 3
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 2e-4))
        for n in range(1000):
            Value(n)
    except KeyboardInterrupt:
        caught += 1
sys.exit(7 if caught else 1)
"""


def test_an_interrupt_while_a_constructor_is_made_is_handled_normally(tmp_path: Path) -> None:
    """The code that catches the interrupt decides how the program ends, also if python -m started it."""
    (tmp_path / "interrupted.py").write_text(_INTERRUPTED)
    done = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (7, "")
