# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk export``: the files that it writes, and what it prints. tests/render/export tests the contents."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gilk.cli.main import main
from tests.trace.machine import nested, write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    two = sorted([*nested(("main", 10, ("f", 5))), *nested(("other", 7), tid=2, sp=0x6000_0000)])
    return write(tmp_path / "a.parquet", two)


@pytest.mark.parametrize(
    ("form", "name"),
    [("perfetto", "a.pftrace"), ("chrome", "a.trace.json"), ("folded", "a.folded"), ("csv", "a.csv")],
)
def test_an_export_is_written_beside_the_file_by_default(
    file: Path, form: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(file), "--to", form, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    made = file.with_name(name)
    assert found == {"file": str(made), "format": form, "calls": 3, "bytes": made.stat().st_size}
    assert not made.with_name(name + ".new").exists()


def test_export_of_one_thread_to_standard_output(file: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["export", str(file), "--to", "folded", "-o", "-", "--thread", "2"]) == 0
    assert capfdbinary.readouterr().out == b"t2;other 7\n"


def test_export_into_a_device_and_to_an_impossible_place(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(file), "--to", "csv", "-o", os.devnull]) == 0
    assert not Path(os.devnull).is_file()
    assert main(["export", str(file), "--to", "csv", "-o", str(file / "x")]) == 6
    assert "cannot-write" in capsys.readouterr().err


def test_a_file_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"PAR1 and so on")
    assert main(["export", str(tmp_path / "x"), "--to", "csv"]) == 6
