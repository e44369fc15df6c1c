# SPDX-License-Identifier: LGPL-2.1-or-later
"""Kernels and drivers that do not fit: each gives an error with a name, and no harm is done."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gilk
from gilk.errors import TargetError
from gilk.lab import Machine, boot
from gilk.session.kernel_session import KernelSession
from gilk.targets.kernel import driver_load
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.target import KernelTarget
from gilk.toolchain.compilers import NATIVE
from gilk.toolchain.kernel_instrument import run_kbuild
from tests.kernel.driver.driving import Guest
from tests.kernel.endurance.conftest import STRICT

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.stress]
DUMMY = ("dummy_setup", "dummy_xmit")  # functions of the module `dummy`
LOCKDOWN = "/sys/kernel/security/lockdown"


@contextmanager
def raises(slug: str) -> Iterator[None]:
    with pytest.raises(TargetError) as caught:
        yield
    assert caught.value.slug == slug
    assert caught.value.hint


@pytest.fixture
def unloaded(guest: Guest) -> Iterator[Guest]:
    """The machine without the driver, for the time of a test."""
    guest.unload()
    yield guest
    guest.load()


def test_a_kernel_locked_down_at_boot_refuses_the_driver(tmp_path: Path) -> None:
    with boot(Machine(arguments=f"{STRICT} lockdown=integrity")) as vm:
        guest = Guest(vm, tmp_path)
        guest.mount("securityfs", "/sys/kernel/security")
        with raises("driver-locked-down"):
            guest.load()
        assert "unsigned module loading is restricted" in guest.run("dmesg")


def test_a_kernel_locked_down_later_refuses_new_clients(tmp_path: Path) -> None:
    """The loaded driver accepts no clients any more, and no other driver can be loaded."""
    with boot(Machine(arguments=STRICT)) as vm:
        guest = Guest(vm, tmp_path)
        guest.load()
        Driver(guest.link)
        guest.link.close_driver()
        guest.mount("securityfs", "/sys/kernel/security")
        guest.write(LOCKDOWN, "integrity")
        with raises("driver-not-allowed"):
            Driver(guest.link)
        guest.unload()
        with raises("driver-locked-down"):
            guest.load()
        assert guest.complaints() == ""


def test_a_driver_built_for_another_kernel_is_refused(unloaded: Guest, tmp_path: Path) -> None:
    """In the other kernel, structures that modules rely on have another layout: the kernel notices by the checksum
    before each name."""
    content = bytearray(unloaded.module.read_bytes())
    name = content.index(b"module_layout\0".ljust(56, b"\0"))
    content[name - 8] ^= 1
    other = tmp_path / "ilk.ko"
    other.write_bytes(content)
    with raises("driver-wrong-kernel"):
        driver_load.load(unloaded.link, other)
    assert not driver_load.loaded(unloaded.link)


@pytest.mark.stress  # it compiles the driver
def test_a_driver_of_another_version_is_refused(unloaded: Guest, tmp_path: Path) -> None:
    for part in ("abi", "ilk"):
        shutil.copytree(NATIVE / part, tmp_path / part)
    header = tmp_path / "abi" / "ilk_abi.h"
    text, changed = re.subn(r"#define ILK_PROTOCOL \d+", "#define ILK_PROTOCOL 77", header.read_text())
    assert changed == 1
    header.write_text(text)
    done = run_kbuild(unloaded.vm.kernel.headers, tmp_path / "ilk")
    assert done.returncode == 0, done.stderr
    driver_load.load(unloaded.link, tmp_path / "ilk" / "ilk.ko")
    try:
        with raises("driver-version"):
            Driver(unloaded.link)
    finally:
        unloaded.unload()


def test_a_c_instrument_without_kernel_headers_is_an_error(
    guest: Guest, kernel: KernelTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session goes on without the instrument."""
    source = tmp_path / "tick.c"
    source.write_text("#include <gilk.h>\nvoid tick(unsigned int iid) { }\n")
    monkeypatch.setenv("GILK_KERNELS", str(tmp_path))
    with KernelSession(kernel, points=1 << 10) as session:
        with raises("driver-no-headers"):
            session.insert("kernel:vfs_read:entry", gilk.c(source, "tick"))
        (probe,) = session.insert("kernel:vfs_read:entry", "count")
        assert probe.tactic is not None
    guest.link.close_driver()
    assert session.restored is True


def test_points_in_an_unloaded_module_are_refused(guest: Guest) -> None:
    """Other code may lie there by now: the plan was made for bytes that are gone."""
    guest.run("modprobe", "dummy")
    kernel = KernelTarget(guest.link)
    kernel.analysis()
    guest.run("rmmod", "dummy")
    guest.run("modprobe", "ifb")
    with KernelSession(kernel, points=1 << 10) as session:
        probes = [probe for name in DUMMY for probe in session.insert(f"kernel:{name}:blocks", "count")]
        assert len(probes) > 5
        assert {probe.tactic for probe in probes} == {None}
    guest.link.close_driver()
    guest.run("rmmod", "ifb")
