# SPDX-License-Identifier: LGPL-2.1-or-later
"""`gilk doctor` tells the truth: its trials agree with the system, and something missing changes the exit status."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner

from gilk.api import machine
from gilk.cache.place import cache_dir
from gilk.cli import checks, doctor, trials
from gilk.cli.checks import Check, Status
from gilk.targets.debug_registers import DebugRegisters, WatchedPiece
from gilk.toolchain import compilers

BROKEN = Check("broken", Status.MISSING, "nothing", "gilk cannot work", "buy another machine")


def test_json_has_every_check_with_its_meaning() -> None:
    result = CliRunner().invoke(doctor.doctor, ["--json"], standalone_mode=False)
    report = json.loads(result.output)
    assert len(report["checks"]) == len(checks.FACTS) + len(trials.TRIALS) + len(doctor.KERNELS)
    assert all(check["means"] and check["status"] in ("ok", "warn", "missing") for check in report["checks"])
    names = [check["name"] for check in report["checks"]]
    assert len(names) == len(set(names))


def test_everything_gilk_cannot_do_without_works_here() -> None:
    """The suite runs gilk on live processes: a machine where these fail should say so before anything else."""
    assert [asdict(check) for check in doctor.examine() if check.status == Status.MISSING] == []


def test_something_missing_is_exit_status_1_and_the_remedy_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "FACTS", (lambda: BROKEN,))
    result = CliRunner().invoke(doctor.doctor, [], standalone_mode=False)
    assert result.return_value == 1
    assert "missing  broken    nothing" in result.output
    assert "-> buy another machine" in result.output


def test_debug_registers_that_somebody_has_are_missing() -> None:
    before, _, _ = machine.trials.free_debug_registers()
    if not before:
        assert trials.debug_registers().status == Status.WARN  # the machine has none, or does not permit them
        return
    room = ctypes.create_string_buffer(16)
    piece = WatchedPiece(ctypes.addressof(room) + 7 & -8, 8, 0, 1)
    held = DebugRegisters([piece], [threading.get_native_id()])
    try:
        found = trials.debug_registers()
    finally:
        held.close()
    assert found.status == Status.WARN and found.found.startswith(f"{before - 1} of 4 are free: all that")
    assert machine.trials.free_debug_registers()[0] == before


def test_a_check_that_raises_becomes_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable() -> Check:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor, "FACTS", (unreadable,))
    found = {check.name: check for check in doctor.examine()}
    assert found["unreadable"].status == Status.WARN
    assert "Permission denied" in found["unreadable"].found


def children() -> set[int]:
    """The children of this process: other tests of the worker may have some that live on, such as a virtual machine."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == os.getpid():
            found.add(int(path.parent.name))
    return found


def test_trials_leave_no_children_and_no_descriptors() -> None:
    gc.collect()  # closes files of other tests
    before, born = len(os.listdir("/proc/self/fd")), children()
    mapped = Path("/proc/self/maps").read_text().count("gilk-doctor")
    for trial in trials.TRIALS:
        trial()
    assert len(os.listdir("/proc/self/fd")) == before
    assert Path("/proc/self/maps").read_text().count("gilk-doctor") == mapped
    assert children() <= born


def test_no_room_for_processes_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    forking = (trials.attach_child, trials.attach_stranger, trials.dual_mapping, trials.write_code)
    gc.collect()  # closes files of other tests
    before = len(os.listdir("/proc/self/fd"))
    assert all(check.status != Status.OK for check in map(doctor._guarded, forking))
    assert len(os.listdir("/proc/self/fd")) == before


def test_refused_memory_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(machine.trials, "_code_mapping", refused)
    assert trials.dual_mapping().status == Status.MISSING


def test_an_instrument_that_computes_wrong_results_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The write trial can fail: a write that does not arrive leaves the child's old code."""
    monkeypatch.setattr(machine.trials, "_returns", lambda value: bytes([0xB8, 41, 0, 0, 0, 0xC3]))
    assert trials.write_code().status == Status.MISSING


@pytest.mark.parametrize(
    ("release", "enough"),
    [("5.8.0-1-amd64", False), ("5.9.0", True), ("6.1.0-49-amd64", True), ("4.19.0", False), ("5.10-rc1", True)],
)
def test_kernel_versions_that_are_old_enough_and_too_old(
    release: str, enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks.platform, "release", lambda: release)
    assert (checks.kernel().status == Status.OK) == enough


@pytest.fixture
def another_compiler() -> Iterator[None]:
    """Forget the compiler that was found, before the test and after it."""
    compilers.compiler.cache_clear()
    yield
    compilers.compiler.cache_clear()


@pytest.mark.usefixtures("another_compiler")
def test_a_missing_compiler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(compilers, "_found", lambda name: "")
    monkeypatch.setattr(compilers.sys, "executable", "/bin/false")
    assert trials.compile_instrument().status == Status.MISSING


def test_a_compiler_that_does_not_compile_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "INSTRUMENT", "this is not C\n")
    found = trials.compile_instrument()
    assert found.status == Status.MISSING
    assert "error" in found.found


@pytest.mark.usefixtures("another_compiler")
@pytest.mark.parametrize("named", ["/no/such/cc -m64", '"'])
def test_a_compiler_that_cannot_be_started_says_why(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", named)
    found = trials.compile_instrument()
    assert (found.status, found.found) == (Status.MISSING, f"CC is {named!r}, which cannot be run")


def test_cache_room_names_the_directory_it_would_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GILK_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "not" / "yet"))
    assert str(tmp_path / "not" / "yet" / "gilk") in checks.room().found
    assert not (tmp_path / "not").exists()


@pytest.mark.parametrize(
    "variables", [{}, {"XDG_CACHE_HOME": "relative"}, {"XDG_CACHE_HOME": "x"}, {"GILK_CACHE": "y"}], ids=str
)
def test_the_doctor_names_the_cache_directory_in_use(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("GILK_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value if value == "relative" else str(tmp_path / value))
    found = checks.this_machine.cache_place()
    assert (found.path, found.why) == (cache_dir(), ())


def test_a_cache_directory_that_others_can_write_to_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "open" / "cache"))
    found = checks.room()
    assert found.status == Status.WARN
    assert f"{tmp_path}/open can be written by others" in found.found
