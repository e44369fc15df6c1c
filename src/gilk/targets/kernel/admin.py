# SPDX-License-Identifier: LGPL-2.1-or-later
"""Builds, loads and unloads the driver of the kernel that this process runs on, for `gilk driver`."""

from __future__ import annotations

from pathlib import Path

from gilk.targets.kernel import driver_build, driver_load
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import DriverStatus, Hello
from gilk.targets.kernel.link import LocalLink
from gilk.values import dataclass


@dataclass(frozen=True)
class DriverReport:
    """The state of the driver. `hello` and `status` are None when it is not loaded."""

    release: str
    hello: Hello | None = None
    status: DriverStatus | None = None


def build(release: str = "", headers: Path | None = None) -> Path:
    """Build the driver for the kernel that runs, for that of a release, or for that of these headers; returns the path
    of ilk.ko. Raises TargetError, CompileError."""
    return driver_build.build(headers or driver_build.headers_of(release or driver_build.running_release()))


def load(module: Path | None = None) -> bool:
    """Load the driver, which is built if no file is given; returns False if it was loaded already. Raises TargetError,
    CompileError."""
    with LocalLink() as link:
        if driver_load.loaded(link):
            return False
        driver_load.allowed()
        return driver_load.load(link, module or build())


def unload() -> bool:
    """Unload the driver; returns False if it was not loaded. Raises TargetError."""
    with LocalLink() as link:
        return driver_load.unload(link)


def status() -> DriverReport:
    """The state of the driver. Raises TargetError driver-not-allowed."""
    release = driver_build.running_release()
    with LocalLink() as link:
        if not driver_load.loaded(link):
            return DriverReport(release)
        driver = Driver(link)
        return DriverReport(release, driver.hello, driver.status())
