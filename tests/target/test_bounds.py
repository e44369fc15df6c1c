# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is mapped at an address is what /proc/PID/maps says, whichever way the kernel is asked."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gilk.errors import TargetError
from gilk.target import bounds
from gilk.target.maps import read_maps
from tests.behaviour.harness import Loop
from tests.programs.build import build


@contextmanager
def _standing_still(pid: int) -> Iterator[None]:
    """A child of ours whose threads are all stopped: one of them might be loading a library."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("request_number", [bounds.PROCMAP_QUERY, bounds.PROCMAP_QUERY + 100])
def test_the_same_as_in_the_list(request_number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second number is one that no kernel knows."""
    monkeypatch.setattr(bounds, "PROCMAP_QUERY", request_number)
    with Loop([build("threads")]) as loop, _standing_still(loop.pid), bounds.bounds_in(loop.pid) as at:
        maps = [mapping for mapping in read_maps(loop.pid) if mapping.path.startswith("/")]
        assert len(maps) > 5
        for mapping in maps:
            whole = mapping.start, mapping.end
            assert at(mapping.start) == at(mapping.end - 1) == at(mapping.start + 8) == whole
            assert at(mapping.start - 1) != whole != at(mapping.end)
        assert at(0) is None


def test_nobody_there() -> None:
    with pytest.raises(TargetError) as raised, bounds.bounds_in((1 << 22) + 1):
        pass
    assert raised.value.slug == "no-such-process"


def test_its_own() -> None:
    here = read_maps(os.getpid())[0]
    with bounds.bounds_in(os.getpid()) as at:
        assert at(here.start) == (here.start, here.end)
