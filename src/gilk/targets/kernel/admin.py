# SPDX-License-Identifier: LGPL-2.1-or-later
"""The driver of the kernel that this process runs on: what `gilk driver` does."""

from __future__ import annotations

from pathlib import Path

from gilk.targets.kernel import driver_build, driver_load
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import DriverStatus, Hello
from gilk.targets.kernel.link import LocalLink
from gilk.values import dataclass


@dataclass(frozen=True)
class DriverReport:
    """`hello` and `status` are None when the driver is not loaded."""

    release: str
    hello: Hello | None = None
    status: DriverStatus | None = None


def build(release: str = "", headers: Path | None = None) -> Path:
    """ilk.ko for the kernel that runs, that of a release, or that of headers. Raises TargetError, CompileError."""
    return driver_build.build(headers or driver_build.headers_of(release or driver_build.running_release()))


def load(module: Path | None = None) -> bool:
    """Whether it was not loaded before. Builds it when no file is given. Raises TargetError, CompileError."""
    with LocalLink() as link:
        if driver_load.loaded(link):
            return False
        driver_load.allowed()
        return driver_load.load(link, module or build())


def unload() -> bool:
    """Whether it was loaded before. Raises TargetError."""
    with LocalLink() as link:
        return driver_load.unload(link)


def status() -> DriverReport:
    """Raises TargetError driver-not-allowed."""
    release = driver_build.running_release()
    with LocalLink() as link:
        if not driver_load.loaded(link):
            return DriverReport(release)
        driver = Driver(link)
        return DriverReport(release, driver.hello, driver.status())
