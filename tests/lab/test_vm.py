# SPDX-License-Identifier: LGPL-2.1-or-later
"""A virtual machine: the files and network that it shares with this machine, and how its end is reported."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from pathlib import Path

import pytest

from gilk.arch import processor
from gilk.errors import TargetError, UsageError
from gilk.lab import Machine, attach, boot, qemu


def test_kvm_is_not_used_on_a_processor_without_virtualization(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial machine of one instruction would run, but a kernel did not."""
    monkeypatch.setattr(processor, "flags", lambda: frozenset(("fpu", "vme", "hypervisor")))
    monkeypatch.setattr(qemu.os, "access", lambda *_: True)
    monkeypatch.setattr(qemu.subprocess, "run", lambda *_, **__: pytest.fail("it was tried"))
    assert not qemu.kvm_works.__wrapped__()


def test_the_machine_shares_files_and_reports_a_panic(tmp_path: Path) -> None:
    """One boot serves all, with the panic last."""
    shared, kept = tmp_path / "sha red", tmp_path / "kept"
    shared.mkdir()
    kept.write_text("as it was")
    with boot(Machine(cpus=2, memory=512, rw=(shared,))) as vm:
        script = f"echo from within > '{shared}/within'; echo changed > {kept}; cat {kept}; rm /etc/hostname; nproc"
        assert vm.run(["sh", "-c", script]) == (0, b"changed\n2\n", b"")
        assert (shared / "within").read_text() == "from within\n"
        assert kept.read_text() == "as it was"
        assert Path("/etc/hostname").exists()
        (shared / "without").write_text("from without")
        assert vm.run(["cat", str(shared / "without")])[1] == b"from without"
        (shared / "without").write_text("and again")
        assert vm.run(["cat", str(shared / "without")])[1] == b"and again"

        said = subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True)
        assert f" {vm.monitor('info version').partition('Debian')[0].strip()} ".encode() in said.stdout
        with pytest.raises(TargetError) as refused:
            vm._ask_qemu("nonesuch")
        assert refused.value.slug == "lab-monitor"

        begun = time.monotonic()
        with pytest.raises(TargetError) as late:
            attach(vm, ["sleep", "1000"], directory="/", environment=os.environ, deadline=begun + 0.5)
        assert late.value.slug == "lab-timeout"
        assert 0.5 <= time.monotonic() - begun < 60

        with pytest.raises(TargetError) as caught:
            vm.run(["sh", "-c", "echo c > /proc/sysrq-trigger"])
    assert caught.value.slug == "lab-panic"
    assert "sysrq triggered crash" in caught.value.message
    assert "sysrq_handle_crash" in caught.value.hint  # the console's last lines
    assert vm.process.returncode is not None


def test_a_machine_that_does_not_answer_is_reported() -> None:
    """The error says where its processors are; either may be at work."""
    with boot(Machine(cpus=2, memory=512)) as vm:
        vm.link.patience = 1.0
        vm.monitor("stop")
        with pytest.raises(TargetError) as caught:
            vm.link.read_file("/proc/version")
    assert caught.value.slug == "relay-silent"
    lines = caught.value.hint.splitlines()[:2]
    for number, line in enumerate(lines):
        assert re.fullmatch(rf"processor {number}(, halted)?: 0x\w{{16}}( < 0xffffffff\w{{8}})*", line), line
    assert max(line.count(" < ") for line in lines) >= 3


def test_a_machine_that_does_not_boot_is_reported() -> None:
    with pytest.raises(TargetError) as caught, boot(Machine(arguments="rdinit=/nonesuch init=/nonesuch")):
        pass
    assert caught.value.slug == "lab-panic"
    assert "Unable to mount root fs" in caught.value.message


def test_a_machine_without_time_to_boot_is_reported() -> None:
    with pytest.raises(TargetError) as caught, boot(limit=0.3):
        pass
    assert caught.value.slug == "lab-no-boot"


@pytest.mark.stress
def test_a_machine_that_shuts_down_is_no_panic() -> None:
    with boot() as vm, pytest.raises(TargetError) as caught:
        # Nothing that would have to be read from a file: the devices go first.
        vm.run(["sh", "-c", "echo o > /proc/sysrq-trigger; while :; do :; done"], timeout=120)
    assert caught.value.slug == "lab-ended"


def test_errors_of_qemu_are_passed_on() -> None:
    with pytest.raises(TargetError) as caught, boot(Machine(cpu="nonesuch")):
        pass
    assert caught.value.slug == "lab-qemu"
    assert "nonesuch" in caught.value.hint


@pytest.mark.parametrize(
    "machine",
    [Machine(cpus=0), Machine(memory=10), Machine(rw=(Path("/nonesuch"),)), Machine(rw=(Path("/etc/hostname"),))],
)
def test_impossible_machines_are_refused(machine: Machine) -> None:
    with pytest.raises(UsageError) as caught, boot(machine):
        pass
    assert caught.value.slug == "bad-machine"


@pytest.mark.stress
def test_the_machine_reaches_this_machine_by_network() -> None:
    """QEMU's router forwards its own address to this machine's loopback device."""
    with socket.create_server(("127.0.0.1", 0)) as server, boot(Machine(network=True)) as vm:
        port = server.getsockname()[1]
        assert vm.run(["bash", "-c", f"echo across > /dev/tcp/10.0.2.2/{port}"], timeout=250)[0] == 0
        connection, _ = server.accept()
        with connection:
            assert connection.recv(100) == b"across\n"


@pytest.mark.stress
def test_the_installed_image_moves_itself() -> None:
    """Only about one boot in a hundred does not move the kernel; the memory is where the symbols say."""
    with boot(Machine(kaslr=True)) as vm:
        symbols = vm.link.read_file("/proc/kallsyms").splitlines()
        place = {line.split()[2]: int(line.split()[0], 16) for line in symbols}
        version = vm.link.read_file("/proc/version")
        assert vm.link.read_core([(place[b"linux_banner"], len(version))]) == [version]
    assert place[b"_text"] != 0xFFFF_FFFF_8100_0000
