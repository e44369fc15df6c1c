# SPDX-License-Identifier: LGPL-2.1-or-later
"""Samples that the kernel holds back, from its records to each output of ``gilk dtrace``."""

from __future__ import annotations

import json
import os
import struct
import time
from pathlib import Path

import pytest

from gilk.cli.main import main
from gilk.engines.dtrace import enabling, machine_sampling
from gilk.render.d import event_file
from gilk.targets.processor_samples import ProcessorSamples
from tests.targets.test_processor_samples import Records

_THROTTLE = 5  # PERF_RECORD_THROTTLE
_PROGRAM = 'cpc:::cpu_clock-all-1000000 { printf("sample %d", pid == $pid); exit(0); }'


@pytest.fixture(autouse=True)
def records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rings in which processor 1 is held back three times before processor 0 takes a sample, of this process."""

    def begun(*_: object) -> ProcessorSamples:
        made, now = Records(2), time.monotonic_ns()
        for at in (now - 30, now - 20, now - 10):
            made.write(1, at, _THROTTLE, struct.pack("<QQQ", at, 1, 1), os.getpid())
        made.sample(0, now, os.getpid())
        return made

    monkeypatch.setattr(machine_sampling, "ProcessorSamples", begun)
    monkeypatch.setattr(enabling, "can_count", lambda _: True)


def test_json_has_an_event_of_the_loss(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["dtrace", "--json", "-n", _PROGRAM]) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    lost = [line for line in lines if line["type"] == "dropped"]
    assert lost == [{"type": "dropped", "kind": "throttled", "cpu": 1, "count": 3}]
    (printed,) = (line for line in lines if line["type"] == "printed")
    assert printed["text"] == "sample 1"
    assert {line["type"] for line in lines[lines.index(printed) :]} >= {"dropped", "ended", "exited"}


def test_the_loss_is_said_at_the_terminal_with_its_tag_if_asked(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["dtrace", "-q", "-x", "droptags", "-n", _PROGRAM]) == 0
    told = capfd.readouterr()
    assert told.out.strip() == "sample 1"
    assert "[DTRACEDROP_THROTTLED] 3 times the kernel held back samples on CPU 1\n" in told.err


def test_a_table_of_events_has_a_row_of_the_loss(tmp_path: Path) -> None:
    assert main(["dtrace", "-o", str(tmp_path / "events.parquet"), "-n", _PROGRAM]) == 0
    rows = event_file.read(tmp_path / "events.parquet")["events"].to_pylist()
    (lost,) = ({name: row[name] for name in ("cpu", "text", "count")} for row in rows if row["type"] == "dropped")
    assert lost == {"cpu": 1, "text": "throttled", "count": 3}
