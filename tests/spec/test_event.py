# SPDX-License-Identifier: LGPL-2.1-or-later
"""Events in their text form."""

from __future__ import annotations

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gilk.errors import UsageError
from gilk.spec import event
from gilk.spec.duration import UNITS, seconds
from gilk.spec.event import Elapsed, Exit, Key, Now, Reach, Signal
from gilk.spec.functions import FunctionPattern
from tests.spec.test_point import FUNCTIONS, IMAGES


def test_events_without_parameters() -> None:
    assert event.parse("now") == Now("now")
    assert event.parse("exit") == Exit("exit")


@given(st.sampled_from(["call", "return"]), IMAGES, FUNCTIONS, st.integers(0, 10**6))
def test_events_of_calls_and_returns(word: str, image: str, function: str, hits: int) -> None:
    """Without a count the event is the first hit."""
    named = FunctionPattern(image, function)
    where = "entry" if word == "call" else "return"
    text = f"{word}:{named}:{hits}" if hits else f"{word}:{named}"
    if not hits and text.rpartition(":")[2].isdecimal():
        return  # a function that is called like a number would be taken for a count
    assert event.parse(text) == Reach(text, named, where, hits or 1)


@given(st.sampled_from(["after", "for"]), st.integers(0, 10**9), st.sampled_from(sorted(UNITS)))
def test_events_of_elapsed_time(word: str, number: int, unit: str) -> None:
    text = f"{word}:{number}{unit}"
    assert event.parse(text) == Elapsed(text, seconds(f"{number}{unit}") or 0.0, word == "for")


@pytest.mark.parametrize("name", ["USR2", "usr2", "SIGUSR2", str(int(signal.SIGUSR2))])
def test_events_of_signals_by_any_name(name: str) -> None:
    assert event.parse(f"signal:{name}") == Signal(f"signal:{name}", signal.SIGUSR2)


@given(st.lists(st.sampled_from(["Ctrl", "alt", "F1", "x"]), min_size=1))
def test_events_of_keys(keys: list[str]) -> None:
    text = f"key:{'-'.join(keys)}"
    assert event.parse(text) == Key(text, tuple(key.lower() for key in keys))


@pytest.mark.parametrize(
    "text",
    [
        "", "soon", "now:x", "call", "call:", "call::", "call::f", "call:f:", "call:a::3", "call:f:0",
        "return:lib:", "after:", "after:-1s", "for:1x", "signal:", "signal:NONE", "signal:KILL", "signal:INT", "key:",
        "call:f:²:", "Now",
    ],
)  # fmt: skip
def test_malformed_events_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        event.parse(text)
    assert caught.value.slug == "bad-event"
    assert text.partition(":")[0] in caught.value.message


def test_colons_in_cpp_names_are_parts_of_the_name() -> None:
    found = event.parse("call:lib:ns::f:3")
    assert found == Reach("call:lib:ns::f:3", FunctionPattern("lib", "ns::f"), "entry", 3)
