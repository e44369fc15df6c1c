# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processors and modules that come and go while programs are attached to them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gilk.errors import TargetError
from gilk.targets.kernel.d_messages import DriverProgram, KernelFire, SiteKind
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import program, ran

pytestmark = pytest.mark.xdist_group("lab")
MOST = 256  # attachments of a program at a site
#: Phase 1: the second processor is offline; 2: it is back. The program touches a file at the end of each.
CLOCKS = """
    syscall::kill:entry /pid == $target/ { phase++; }
    tick-20ms /phase == 1/ { @ticks = count(); ticks++; }
    tick-20ms /phase == 1 && ticks == 60/ { system("touch /dev/shm/seen-1"); }
    profile-20ms /phase == 1/ { @rings[cpu] = count(); }
    profile-20ms /phase == 2 && cpu == 1/ { rings++; }
    cpc:::cpu_clock-all-20000000 /phase == 2 && cpu == 1/ { counts++; }
    tick-20ms /rings > 9 && counts > 9 && !seen/ { seen = 1; system("touch /dev/shm/seen-2"); }
    END { printa("ticks %@d\\n", @ticks); printa("rings %d %@d\\n", @rings); }"""
SWITCH = """
    cpu=/sys/devices/system/cpu/cpu1/online
    rm -f /dev/shm/seen-?
    echo 0 > $cpu; kill -0 $$; until [ -e /dev/shm/seen-1 ]; do true; done
    echo 1 > $cpu; kill -0 $$; until [ -e /dev/shm/seen-2 ]; do true; done"""


def test_clocks_and_counters_follow_processors(kernel: KernelTarget, guest: Guest) -> None:
    """The clock of a processor that has gone does not ring on another one, and all begin anew when it is back."""
    try:
        done = ran(kernel, CLOCKS, ["sh", "-c", SWITCH], destructive="")
    finally:
        guest.write("/sys/devices/system/cpu/cpu1/online", "1")
    assert done.ended and not done.errors
    told = dict(line.rsplit(" ", 1) for line in done.lines)
    assert int(told["ticks"]) >= 60 and int(told["rings 0"]) < 1.5 * int(told["ticks"])
    assert not guest.complaints()


def test_nobody_finds_a_site_in_a_module_that_has_been_unloaded(guest: Guest) -> None:
    """Else a second program would wait for ever at the same address, where other code lies by then."""
    guest.run("modprobe", "dummy")
    kernel = KernelTarget(guest.link)
    consumer, _ = program(kernel, "fbt:dummy:dummy_xmit:entry { @ = count(); }")
    try:
        assert not consumer.start()
        sites = DriverProgram(Driver(guest.link))
        address = guest.module_symbol("dummy_xmit")
        assert address and all(sites.find([(address, SiteKind.ENTRY)]))
        guest.run("rmmod", "dummy")
        assert not any(sites.find([(address, SiteKind.ENTRY)]))
    finally:
        assert consumer.machine is not None
        consumer.machine.close()
        guest.vm.run(["rmmod", "dummy"])
    assert not guest.complaints()


def test_a_program_attaches_to_one_site_so_often_only(kernel: KernelTarget, guest: Guest) -> None:
    """A hit runs all that is attached, with interrupts off."""
    consumer, _ = program(kernel, "fbt::do_msgsnd:entry { @ = count(); }")
    try:
        assert not consumer.start()
        sites = DriverProgram(Driver(guest.link))
        address = guest.symbols["do_msgsnd"]
        (site,) = sites.find([(address, SiteKind.ENTRY)])
        fire = KernelFire(site, SiteKind.ENTRY, address=address)
        for _ in range(MOST - 1):
            sites.attach([fire])
        with pytest.raises(TargetError):
            sites.attach([fire])
    finally:
        assert consumer.machine is not None
        consumer.machine.close()
    assert not guest.complaints()


@pytest.mark.parametrize("other", [{"address": 4}, {"kind": SiteKind.RETURN}])
def test_a_site_in_force_stays_where_it_is(
    kernel: KernelTarget, guest: Guest, other: dict[str, int | SiteKind]
) -> None:
    """Other programs find it by what it was attached as."""
    consumer, _ = program(kernel, "fbt::do_msgsnd:entry { @ = count(); }")
    try:
        assert not consumer.start()
        sites = DriverProgram(Driver(guest.link))
        at = (guest.symbols["do_msgsnd"], SiteKind.ENTRY)
        (site,) = sites.find([at])
        with pytest.raises(TargetError):
            sites.attach([replace(KernelFire(site, at[1], address=at[0]), **other)])
        assert sites.find([at]) == [site]
    finally:
        assert consumer.machine is not None
        consumer.machine.close()
    assert not guest.complaints()
