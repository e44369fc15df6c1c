# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk driver`` as a user sees it. What it does to a kernel is tested in a virtual machine, in tests/kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gilk.cli.main import main
from gilk.errors import TargetError
from gilk.targets.kernel import admin, driver_load
from gilk.targets.kernel.driver_build import headers_of
from gilk.targets.kernel.driver_errors import cannot_open, refused


def test_building_without_kernel_headers_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["driver", "build", "--headers", str(tmp_path)]) == 4
    assert "driver-no-headers" in capsys.readouterr().err


def test_a_kernel_release_that_does_not_exist_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["driver", "build", "--kernel", "6.1.0-0-none"]) == 4
    assert "apt-get install linux-headers-6.1.0-0-none" in capsys.readouterr().err


def test_the_driver_is_built_with_headers_of_a_lab_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No headers are installed on this machine itself."""
    headers = tmp_path / "6.1.0-0-none/usr/src/linux-headers-6.1.0-0-none"
    headers.mkdir(parents=True)
    (headers / "Makefile").touch()
    monkeypatch.setenv("GILK_KERNELS", str(tmp_path))
    assert headers_of("6.1.0-0-none") == headers


def test_status_says_that_no_driver_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver_load, "loaded", lambda link: False)
    assert main(["driver", "status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["loaded"] is False


def test_loading_without_root_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(driver_load, "loaded", lambda link: False)
    with pytest.raises(TargetError) as caught:
        admin.load()
    assert caught.value.slug == "driver-not-root"


class Machine:
    """Answers as kmod's insmod and rmmod do."""

    def __init__(self, said: str, lockdown: bytes = b"", loaded: bool = False) -> None:
        self.said, self.lockdown, self.modules = said, lockdown, b"ilk 1 0 - Live\n" if loaded else b"crc7 1 0\n"

    def read_file(self, path: str) -> bytes:
        if path == "/proc/modules":
            return self.modules
        if not self.lockdown:
            raise FileNotFoundError(2, path)
        return self.lockdown

    def run(self, command: list[str]) -> tuple[int, bytes, bytes]:
        return 1, b"", self.said.encode()


@pytest.mark.parametrize(
    ("said", "lockdown", "slug"),
    [
        ("insmod: ERROR: could not insert module ilk.ko: Operation not permitted", b"", "driver-not-root"),
        (
            "insmod: ERROR: could not insert module ilk.ko: Operation not permitted",
            b"none [integrity] confidentiality",
            "driver-locked-down",
        ),
        (
            "insmod: ERROR: could not insert module ilk.ko: Key was rejected by service",
            b"none [integrity] confidentiality",
            "driver-locked-down",
        ),
        ("insmod: ERROR: could not insert module ilk.ko: Invalid module format", b"", "driver-wrong-kernel"),
        ("insmod: ERROR: could not insert module ilk.ko: No such device or address", b"", "driver-load-failed"),
    ],
)
def test_errors_of_loading_are_named_by_their_cause(said: str, lockdown: bytes, slug: str) -> None:
    with pytest.raises(TargetError) as caught:
        driver_load.load(Machine(said, lockdown), Path("ilk.ko"))
    assert caught.value.slug == slug


def test_a_driver_in_use_is_not_unloaded() -> None:
    with pytest.raises(TargetError) as caught:
        driver_load.unload(Machine("rmmod: ERROR: Module ilk is in use", loaded=True))
    assert caught.value.slug == "driver-in-use"


def test_loading_a_loaded_driver_and_unloading_none_do_nothing() -> None:
    assert driver_load.load(Machine("", loaded=True), Path("ilk.ko")) is False
    assert driver_load.unload(Machine("")) is False


@pytest.mark.parametrize(
    ("number", "slug"),
    [(2, "driver-not-loaded"), (13, "driver-not-allowed"), (1, "driver-not-allowed"), (5, "driver-refused")],
)
def test_errors_of_opening_the_device_have_slugs(number: int, slug: str) -> None:
    assert cannot_open(OSError(number, "")).slug == slug


@pytest.mark.parametrize(
    ("number", "slug"),
    [(71, "driver-version"), (16, "driver-busy"), (12, "driver-memory"), (7, "driver-limit"), (22, "driver-refused")],
)
def test_errors_of_driver_messages_have_slugs(number: int, slug: str) -> None:
    assert refused(OSError(number, "")).slug == slug
