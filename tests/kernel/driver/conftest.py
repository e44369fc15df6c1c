# SPDX-License-Identifier: LGPL-2.1-or-later
"""Load the driver into the virtual machine that all kernel tests share, for the tests of this directory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gilk.lab import VM
from tests.kernel.driver.driving import Guest


@pytest.fixture(scope="package")
def guest(vm: VM, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    guest = Guest(vm, tmp_path_factory.mktemp("guest"))
    guest.load()
    yield guest
    guest.unload()
