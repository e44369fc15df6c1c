# SPDX-License-Identifier: LGPL-2.1-or-later
"""The trace of a launched program begins when the program goes on, not while it is held and instrumented."""

from __future__ import annotations

import time

import pytest

import gilk
from gilk.runs.run import Run
from gilk.targets.process import Process
from tests.programs.build import build


@pytest.mark.parametrize("follow", [False, True])
def test_a_trace_does_not_include_the_time_in_which_the_program_is_held(
    monkeypatch: pytest.MonkeyPatch, follow: bool
) -> None:
    noted: list[int] = []  # once all is in, and before the program goes on

    def opened(running: Run) -> None:
        noted.append(time.monotonic_ns())

    def released(process: Process) -> None:
        noted.append(time.monotonic_ns())
        release(process)

    release = Process.release
    monkeypatch.setattr(Run, "_open", opened)
    monkeypatch.setattr(Process, "release", released)
    running = gilk.prepare_trace((), [str(build("calls"))], None, scope=["calls:"], everything=True, follow=follow)
    try:
        running.begin()
        running.wait(60, lambda: False, lambda _progress: None)
        running.finish()
    finally:
        for process in running.processes:
            process.keeper.leave()
    assert noted[0] <= running.window[0] <= noted[1] <= running.window[1]
    flow = running.flow()
    assert flow is not None and flow.table.num_rows
    assert min(flow.table["start"].to_pylist()) >= running.started
