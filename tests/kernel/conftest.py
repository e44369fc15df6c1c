# SPDX-License-Identifier: LGPL-2.1-or-later
"""One virtual machine for all tests of the kernel; a test that brings a kernel down boots its own.

tests/conftest.py sends all these tests to one worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gilk.lab import VM, Machine, boot
from gilk.targets.kernel.driver import Driver
from tests.kernel.driver.driving import Guest, complaints
from tests.kernel.driver.handmade import Bench

# Errors in the kernel must not go unnoticed.
STRICT = "oops=panic panic_on_warn=1"


@pytest.fixture(scope="session")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that this machine and the virtual one both see under the same name, and may both change."""
    return tmp_path_factory.mktemp("exchange")


@pytest.fixture(scope="session")
def vm(exchange: Path) -> Iterator[VM]:
    """The virtual machine, up and idle, with two processors."""
    with boot(Machine(cpus=2, arguments=STRICT, rw=(exchange,))) as machine:
        yield machine
        said = complaints(machine)
        assert not said, said


@pytest.fixture
def driver(guest: Guest) -> Iterator[Driver]:
    """A client of the driver that ends with the test, in the `guest` of the package that asks for it."""
    yield Driver(guest.link)
    guest.link.close_driver()


@pytest.fixture
def bench(driver: Driver) -> Bench:
    return Bench(driver)
