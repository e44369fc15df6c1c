# SPDX-License-Identifier: LGPL-2.1-or-later
"""A machine for endurance tests: two processors, fully preemptible, on which any warning is fatal.

The other kernel tests do not share it, because these tests are rough.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gilk.lab import Machine, boot
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.endurance.watch import Watch

STRICT = "oops=panic panic_on_warn=1 softlockup_panic=1 softlockup_all_cpu_backtrace=1 preempt=full"
#: Freed memory of this size, which ftrace's tables have, is overwritten at once.
POISON = "slub_debug=FP,kmalloc-32"


@pytest.fixture(scope="package")
def guest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """The machine. With a parameter, its processors take turns (turns.py): with processors that run at once, kprobes
    that come and go kill the kernel within a minute even without gilk."""
    turns, place = hasattr(request, "param"), tmp_path_factory.mktemp("endurance")
    with boot(Machine(cpus=2, memory=2048, arguments=f"{STRICT} {POISON}", turns=turns)) as vm:
        guest = Guest(vm, place)
        guest.load()
        try:
            yield guest
            guest.unload()
        finally:
            print(vm.console()[-10_000:])  # shown if that failed: the machine may have panicked


@pytest.fixture(scope="package")
def watch(guest: Guest) -> Watch:
    return Watch(guest)


@pytest.fixture(autouse=True)
def unharmed(watch: Watch) -> Iterator[None]:
    """Each test here must leave the kernel as it was."""
    with watch.unharmed():
        yield


@pytest.fixture(scope="package")
def kernel(guest: Guest) -> KernelTarget:
    """The kernel, read once, before modules come and go."""
    target = KernelTarget(guest.link)
    target.analysis()
    return target
