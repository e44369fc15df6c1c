# SPDX-License-Identifier: LGPL-2.1-or-later
"""Work for the kernel while splices come and go: stress-ng, and everything else that changes code or processors."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from gilk.targets.kernel.channel import RemoteProcess
from tests.kernel.driver.driving import Guest

#: Ways to enter the kernel, each with as many workers as given, at the lowest priority: a grace period ends when
#: everyone has been on a processor, and the driver must get its turn.
STRESSORS = ("fork", "pipe", "switch", "vm", "sock", "futex", "mmap", "timer", "open", "epoll", "sem", "signal")
START, END = 30.0, 60.0  # seconds for a worker to begin, and to end


@contextmanager
def stressed(guest: Guest, stressors: Sequence[str] = STRESSORS) -> Iterator[RemoteProcess]:
    """In the block, one worker of each stressor is at work; all must still be at work at its end."""
    if not shutil.which("stress-ng"):
        pytest.skip("stress-ng is not installed: tools/setup test")
    words = ["nice", "-n", "19", "stress-ng", "--oomable", "--vm-bytes", "32M", "--temp-path", "/dev/shm"]
    words += [word for name in stressors for word in (f"--{name}", "1")]
    with running(guest, words, "dispatching hogs") as process:
        yield process


@contextmanager
def running(guest: Guest, command: Sequence[str], begun: str = "") -> Iterator[RemoteProcess]:
    """Run a command for the time of the block, which begins when the command has printed `begun`; it may not end
    before."""
    said = bytearray()
    process = guest.link.spawn(command, said.extend, said.extend)
    waited = 0.0
    while begun.encode() not in said and waited < START:
        assert process.wait(0.1) is None, said.decode()
        waited += 0.1
    try:
        yield process
        assert process.status is None, said.decode()
    finally:
        if process.status is None:
            process.signal(signal.SIGTERM)
        assert process.wait(END) is not None, f"{command[0]} does not end"


@contextmanager
def repeated(guest: Guest, name: str, script: str) -> Iterator[None]:
    """In the block, run a shell script again and again, each time to its end. A run that fails fails the test."""
    flag = f"/run/gilk-{name}"
    guest.run("touch", flag)
    loop = f"echo begun; while [ -e {flag} ]; do {script}\ndone"
    said = bytearray()
    process = guest.link.spawn(["sh", "-ec", loop], said.extend, said.extend)
    try:
        yield
    finally:
        guest.run("rm", flag)
        status = process.wait(END)
    assert status == 0, f"{name}: status {status}: {said.decode()}"
