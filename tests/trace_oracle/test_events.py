# SPDX-License-Identifier: LGPL-2.1-or-later
"""A trace begins and ends with its events, in a program whose calls in between are known."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gilk.engines.follow import keyboard
from gilk.engines.follow.keyboard import Keyboard
from gilk.errors import GilkError, TargetError
from gilk.spec import event
from gilk.trace.flow import CallState
from gilk.trace.traced import NEVER
from tests.behaviour.harness import ENVIRONMENT, differences, leftovers, wait_for
from tests.trace_oracle.paced import Observed, Paced, alpha, observe

ROUND = alpha(1)


@pytest.fixture
def paced() -> Iterator[Paced]:
    with Paced() as program:
        yield program


def test_a_trace_from_now_for_some_time(paced: Paced) -> None:
    found = observe(paced, "now", "for:300ms", [])
    assert found.functions == [] and found.traced.stop_ns - found.traced.start_ns >= 300e6


def test_a_trace_from_the_third_call_to_the_fifth(paced: Paced) -> None:
    found = observe(paced, "call:alpha:3", "call:alpha:2", ["a 2", "a 9"])
    assert found.functions == alpha(1)  # the third call is in it; the fifth is met before it is recorded
    assert not found.report["partial"]


def test_a_trace_from_a_call_to_its_return(paced: Paced) -> None:
    found = observe(paced, "call:alpha", "return:alpha", ["a 3"])
    assert found.functions == alpha(1)
    assert found.states[CallState.WHOLE] == 5


def test_a_trace_from_a_return_on(paced: Paced) -> None:
    """The thread is held right after the return's record: its next call is the first in the trace."""
    found = observe(paced, "return:beta", "return:repeat", ["a 2"])
    assert found.functions == alpha(1)


def test_the_program_may_end_right_after_the_stop(tmp_path: Path) -> None:
    """The program ends before gilk has looked."""
    with Paced() as paced:
        found = observe(paced, "call:alpha", "return:repeat", ["a 1\nx 0"])
    assert found.functions == ROUND
    assert found.traced.stop_ns > found.traced.start_ns


def test_a_trace_starts_at_a_function_of_a_library(paced: Paced) -> None:
    found = observe(paced, "call:libc:puts", "call:libc.so.6:fflush", ["a 1"], scope=("paced:", "libc.so.6:puts"))
    assert found.functions == ["puts"]


def test_a_trace_starts_after_some_time(paced: Paced) -> None:
    begun = time.monotonic()
    found = observe(paced, "after:700ms", "for:1ms", [])
    assert time.monotonic() - begun >= 0.7
    assert found.traced.start_ns >= 700e6


@pytest.mark.parametrize("name", ["USR1", "12"])
def test_a_trace_starts_at_a_signal_to_gilk(paced: Paced, name: str) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    number = signal.SIGUSR1 if name == "USR1" else signal.SIGUSR2

    def send() -> None:
        os.kill(os.getpid(), number)

    found = observe(paced, f"signal:{name}", "return:repeat", ["a 1"], when_waiting=send)
    assert found.functions == ["obey", "repeat", *ROUND]
    assert signal.getsignal(signal.SIGUSR1) is before


def test_a_trace_starts_at_a_combination_of_keys(paced: Paced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "event0")
    device = os.open(tmp_path / "event0", os.O_RDWR)
    monkeypatch.setattr(keyboard.Keyboard.__init__, "__defaults__", (tmp_path,))
    found = observe(
        paced, "key:alt-f", "return:repeat", ["a 1"], when_waiting=lambda: press(device, (42, 1), (100, 1), (33, 1))
    )
    assert found.functions == ["obey", "repeat", *ROUND]
    os.close(device)


def press(device: int, *keys: tuple[int, int]) -> None:
    """Write a struct input_event for each (code, value) to the device."""
    os.write(device, b"".join(struct.pack("@llHHi", 0, 0, 1, code, value) for code, value in keys))


def test_keys_count_only_when_pressed_together(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "event3")
    device = os.open(tmp_path / "event3", os.O_RDWR)
    with Keyboard(("ctrl", "alt", "f"), tmp_path) as keys:
        press(device, (29, 1), (33, 1), (33, 0))
        assert not keys.pressed()
        press(device, (56, 1), (33, 1))
        assert keys.pressed()
        press(device, (33, 2))  # held down, so it repeats
        assert not keys.pressed()
        press(device, (29, 0), (33, 0), (33, 1))
        assert not keys.pressed()
        os.write(device, b"\0" * 7)  # a part of an event is kept until the rest has come
        assert not keys.pressed()
    os.close(device)


def test_no_keyboard_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TargetError) as caught:
        Keyboard(("f",), tmp_path)
    assert caught.value.slug == "no-keyboard"


def test_a_trace_until_the_program_ends(paced: Paced) -> None:
    found = observe(paced, "call:beta", "exit", ["a 1", "x 0"])
    assert found.functions[0] == "beta"
    assert found.traced.stop_ns > found.traced.start_ns
    assert not found.report["partial"]


def test_a_trace_starts_at_a_call_in_another_thread(paced: Paced) -> None:
    found = observe(paced, "call:alpha", "return:repeat", ["t 2"])
    assert found.functions == alpha(2)
    assert found.threads == 1


def test_calls_left_by_longjmp_are_marked(paced: Paced) -> None:
    found = observe(paced, "call:around", "return:around", ["j"])
    assert found.functions == ["around", "left", "leaf", "leaf"]
    assert found.states == {CallState.WHOLE: 3, CallState.LEFT: 1}


def test_a_trace_whose_start_never_comes_can_be_interrupted(paced: Paced, tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "gilk",
        "trace",
        "--start",
        "call:left",
        "-p",
        str(paced.pid),
        "-o",
        str(tmp_path / "t"),
    ]
    client = subprocess.Popen(
        [*words, "--scope", "paced:"], env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE, text=True
    )
    assert wait_for((tmp_path / "t.partial").exists)
    assert differences(paced.pid)
    paced.do("a 3")
    client.send_signal(signal.SIGINT)
    out, _ = client.communicate(timeout=250)
    assert client.returncode == 0
    assert "the trace never began: call:left did not come" in out
    assert differences(paced.pid) == []
    assert leftovers(paced.pid) == []
    paced.do("j")


NO_EVENTS = (
    *("never", "now:1", "exit:0", "call", "call:", "call::3", "call:f:", "call::f:2", "call:f:0", "return:"),
    *("after:", "after:soon", "after:2 d", "for:-1s", "signal:", "signal:KILL", "signal:NOPE", "signal:99", "key:", ""),
)


@pytest.mark.parametrize("text", NO_EVENTS)
def test_a_bad_event_is_refused_by_name(text: str) -> None:
    with pytest.raises(GilkError) as caught:
        event.parse(text)
    assert caught.value.slug == "bad-event"


def test_an_unknown_key_is_a_bad_event(tmp_path: Path) -> None:
    with pytest.raises(GilkError) as caught:
        Keyboard(("alt", "any"), tmp_path)
    assert caught.value.slug == "bad-event"


@pytest.mark.parametrize(
    ("start", "slug"),
    [("call:no_such", "no-such-function"), ("call:nolib:f", "no-such-image"), ("key:q-", "bad-event")],
)
def test_an_impossible_event_leaves_the_process_unchanged(paced: Paced, start: str, slug: str) -> None:
    with pytest.raises(GilkError) as caught:
        observe(paced, start, "exit", [])
    assert caught.value.slug == slug
    assert wait_for(lambda: not leftovers(paced.pid))
    assert differences(paced.pid) == []
    paced.do("a 1")


@pytest.mark.parametrize("scope", ["", ":f"])
def test_a_bad_scope_is_refused_by_name(paced: Paced, scope: str) -> None:
    with pytest.raises(GilkError) as caught:
        observe(paced, "now", "exit", [], scope=(scope,))
    assert caught.value.slug == "bad-scope"


def test_a_scope_without_functions_is_an_error(paced: Paced) -> None:
    with pytest.raises(GilkError) as caught:
        observe(paced, "now", "exit", [], scope=("paced:no_such_*",))
    assert caught.value.slug == "nothing-to-follow"
    assert wait_for(lambda: not leftovers(paced.pid))


def test_ctrl_c_during_a_wait_in_another_thread_ends_the_trace(paced: Paced) -> None:
    """Ctrl-C comes while the trace is on: the trace ends, and everything is taken out."""
    found: Observed = observe(paced, "now", "exit", ["a 1"], stop_when_done=True)
    assert found.functions == ["obey", "repeat", *ROUND]
    assert found.states == {CallState.WHOLE: 2 + len(ROUND)}
    assert found.traced.stop_ns == NEVER
    assert threading.active_count() < 10
