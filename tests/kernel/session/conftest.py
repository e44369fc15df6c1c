# SPDX-License-Identifier: LGPL-2.1-or-later
"""A kernel in the virtual machine that all kernel tests share, with the driver loaded, and a program to run in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gilk.lab import VM
from gilk.session.kernel_session import KernelSession
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.programs.build import compile_to


@pytest.fixture(scope="package")
def guest(vm: VM, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    guest = Guest(vm, tmp_path_factory.mktemp("guest"))
    guest.load()
    yield guest
    guest.unload()


@pytest.fixture(scope="package")
def kernel(guest: Guest) -> KernelTarget:
    """The kernel, read once: nothing is loaded or unloaded meanwhile."""
    target = KernelTarget(guest.link)
    target.analysis()
    return target


@pytest.fixture
def session(kernel: KernelTarget, guest: Guest) -> Iterator[KernelSession]:
    with KernelSession(kernel, points=1 << 14) as session:
        yield session
    guest.link.close_driver()


@pytest.fixture(scope="package")
def calls(exchange: Path) -> Path:
    """The program calls.c, at a place that the virtual machine sees."""
    return compile_to(exchange / "calls", [Path(__file__).with_name("calls.c")], ("-O2", "-static"))
