# SPDX-License-Identifier: LGPL-2.1-or-later
"""A signal that arrives during a fork: Python drops exceptions that are raised in its hooks there."""

from __future__ import annotations

import os
import signal

import pytest

from gilk.targets import apart

_wanted: list[int] = []


def _send_what_is_wanted() -> None:
    while _wanted:
        signal.raise_signal(_wanted.pop())


os.register_at_fork(after_in_parent=_send_what_is_wanted)


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _fork() -> None:
    child = apart.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_a_fork_is_handled_afterwards(number: signal.Signals) -> None:
    before = signal.signal(number, _end)
    try:
        _wanted.append(number)
        with pytest.raises(SystemExit):
            _fork()
        assert signal.getsignal(number) is _end
        _fork()
    finally:
        signal.signal(number, before)


def test_an_ignored_signal_stays_ignored_across_the_fork() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        _wanted.append(signal.SIGHUP)
        _fork()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
