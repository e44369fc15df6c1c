# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk dtrace`` in the kernel of its own machine: here it runs in the virtual machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.kernel.driver.driving import Guest

GILK = Path(sys.executable).with_name("gilk")
WRITES = 500
PROGRAM = """
syscall::write:entry /pid == $target/ { @ = count(); }
fbt::vfs_write:entry /pid == $target/ { @v = count(); }
"""


@pytest.mark.stress  # the virtual machine reads its own kernel, which takes minutes under emulation
@pytest.mark.timeout(1800)
def test_the_kernel_of_this_machine_needs_no_option(guest: Guest) -> None:
    command = f"dd if=/dev/zero of=/dev/null bs=1 count={WRITES}"
    status, said, errors = guest.link.run([str(GILK), "dtrace", "-q", "-n", PROGRAM, "-c", command], timeout=1500)
    assert status == 0, errors.decode()
    writes, in_kernel = map(int, said.split())
    assert writes == in_kernel
    assert WRITES <= writes <= WRITES + 20, errors.decode()  # with what dd prints at its end
