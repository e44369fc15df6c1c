# SPDX-License-Identifier: LGPL-2.1-or-later
"""A machine falls silent in the middle of a run, or never hears that the run has ended."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gilk.errors import MachineGone
from gilk.runs.elsewhere import Elsewhere
from gilk.runs.run import Run
from gilk.session.request import parse
from gilk.targets.kernel.target import KernelTarget
from gilk.trace.reading import read
from tests.kernel.driver.driving import LIMIT, NUMBERS, Guest

CALLS = 500


@pytest.fixture
def run(kernel: KernelTarget, guest: Guest, tmp_path: Path) -> Iterator[Run]:
    """A run whose command makes some calls and does not end; yielded once the calls were seen."""
    script = f"{guest.program} {NUMBERS['getpgrp']} {CALLS} 1; exec sleep 1000"
    elsewhere = Elsewhere(guest.link, lambda: None)
    requests = [parse("kernel:__x64_sys_getpgrp:entry=stamp")]
    run = Run([], requests, tmp_path / "run.parquet", ("sh", "-c", script), kernel, elsewhere)
    patience = guest.link.patience
    run.begin()
    run.wait(LIMIT, lambda: run.sessions[0].records >= CALLS, lambda _: None)
    yield run
    guest.link.patience = patience
    guest.link.close_driver()
    assert elsewhere._command is not None
    elsewhere._command.signal(signal.SIGKILL)
    assert elsewhere._command.wait(LIMIT) == 128 + signal.SIGKILL


def silent(*_: Any) -> bytes:
    raise MachineGone("relay-silent", "no answer")


def finished(run: Run, guest: Guest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Finish the run: whatever fails meanwhile, the file has the records that had come."""
    monkeypatch.setattr(guest.link, "close", lambda: None)  # closing the link would end the machine
    result = run.finish()
    monkeypatch.undo()
    assert run.lost is not None
    assert result.partial
    assert result.restored is None
    assert [note for note in result.notes if "relay-silent" in note] == result.notes
    assert len(result.notes) == 1
    assert result.file == str(tmp_path / "run.parquet")
    assert read(tmp_path / "run.parquet").samples.num_rows == CALLS


def test_a_machine_that_falls_silent_during_a_run_is_reported(
    run: Run, guest: Guest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(guest.link.channel, "ask", silent)
    run.wait(None, lambda: False, lambda _: None)
    assert run.lost is not None
    finished(run, guest, monkeypatch, tmp_path)


def test_a_machine_that_falls_silent_at_the_end_is_reported(
    run: Run, guest: Guest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A processor that hangs has this effect, because changing code takes all processors. gilk then waits less than
    usual."""
    before = guest.link.patience
    monkeypatch.setattr(run.sessions[0], "_restore", silent)
    run._hurry()
    assert guest.link.patience < before / 5
    finished(run, guest, monkeypatch, tmp_path)
