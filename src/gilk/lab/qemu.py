# SPDX-License-Identifier: LGPL-2.1-or-later
"""QEMU: the command line of a machine, and whether KVM can run one here."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from gilk import private
from gilk.arch import processor
from gilk.errors import TargetError, UsageError
from gilk.lab.kernels import StockKernel
from gilk.values import dataclass

PROGRAM: Final = "qemu-system-x86_64"
_PROBE_LIMIT: Final = 5  # seconds; a working KVM takes a tenth of one
_VIRTUALIZES: Final = frozenset(("vmx", "svm"))  # Intel's and AMD's


@dataclass(frozen=True)
class Machine:
    """The settings of a virtual machine."""

    cpus: int = 1
    memory: int = 1024  # MiB
    arguments: str = ""  # additional arguments of the kernel
    rw: tuple[Path, ...] = ()  # directories shared for writing
    icount: bool = False  # each instruction takes one nanosecond, and one tick of the TSC
    network: bool = False
    kaslr: bool = False  # boot the installed image, which moves itself to a random address; takes longer
    emulate: bool = False  # do not use KVM
    turns: bool = True  # emulated processors run one at a time: see docs/limits.md on code that changes
    cpu: str = ""  # a CPU model of QEMU; "": the host's with KVM, else the largest

    def check(self) -> None:
        """Check the settings that QEMU would refuse less clearly. Raises UsageError bad-machine."""
        if not 1 <= self.cpus <= 64:
            raise UsageError("bad-machine", f"{self.cpus} processors: 1 to 64 are possible")
        if self.icount and self.cpus > 1:
            # Measured: with icount a second processor never comes up; QEMU runs processors in turns.
            raise UsageError("bad-machine", "--icount works with one processor only")
        if not 256 <= self.memory <= 1 << 20:
            raise UsageError(
                "bad-machine", f"{self.memory} MiB of memory: 256 at least, or Debian's kernel does not boot"
            )
        for path in self.rw:
            if not path.is_dir():
                raise UsageError("bad-machine", f"{path} is not a directory, and cannot be shared")
            if "," in str(path):
                raise UsageError("bad-machine", f"{path} cannot be shared, because its name has a comma")


def program() -> str:
    """The path of QEMU. Raises TargetError lab-no-qemu."""
    found = shutil.which(PROGRAM)
    if found is None:
        hint = "apt-get install --no-install-recommends qemu-system-x86"
        raise TargetError("lab-no-qemu", f"{PROGRAM} is not installed", hint)
    return found


def command(machine: Machine, kernel: StockKernel, initramfs: int, relay: int, monitor: int) -> list[str]:
    """The command line. `initramfs`, `relay` and `monitor` are descriptors that QEMU inherits: a file, and two
    connected sockets. The machine's serial port is QEMU's standard output."""
    accelerated = is_accelerated(machine)
    image = kernel.image if machine.kaslr or kernel.direct is None else kernel.direct
    shares = {"root": (Path("/"), True), "modules": (kernel.modules, True)}
    shares |= {tag: (path, False) for tag, path in shared(machine).items()}
    options = {
        "machine": "pc", "m": str(machine.memory), "smp": str(machine.cpus), "display": "none", "serial": "stdio",
        "accel": "kvm" if accelerated else f"tcg,thread={'single' if machine.icount or machine.turns else 'multi'}",
        "cpu": machine.cpu or ("host" if accelerated else "max"),
        "kernel": str(image), "initrd": f"/proc/self/fd/{initramfs}",
        # panic=-1 reboots at once after a panic, and -no-reboot turns that into the end of the machine.
        "append": f"console=ttyS0 quiet panic=-1 {'' if machine.kaslr else 'nokaslr'} {machine.arguments}".strip(),
    }  # fmt: skip
    if machine.icount:
        options["icount"] = "shift=0,sleep=off"
    if machine.network:
        options["nic"] = "user,model=virtio-net-pci"
    words = [program(), "-nodefaults", "-no-user-config", "-no-reboot"]
    words += [word for name, value in options.items() for word in (f"-{name}", value)]
    return [*words, *_ports(relay, monitor), *_shares(shares)]


def shared(machine: Machine) -> dict[str, Path]:
    """The directories shared for writing, by tag."""
    return {f"share{n}": path.resolve() for n, path in enumerate(machine.rw)}


def _ports(relay: int, monitor: int) -> list[str]:
    return [
        "-device", "virtio-serial-pci",
        "-chardev", f"socket,id=relay,fd={relay}", "-device", "virtserialport,chardev=relay,name=gilk",
        "-chardev", f"socket,id=monitor,fd={monitor}", "-mon", "chardev=monitor,mode=control",
    ]  # fmt: skip


def _shares(shares: Mapping[str, tuple[Path, bool]]) -> list[str]:
    words = []
    for tag, (path, readonly) in shares.items():
        access = "readonly=on" if readonly else "readonly=off"
        words += ["-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap,{access}"]
        words += ["-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
    return words


def is_accelerated(machine: Machine) -> bool:
    """Whether KVM will run the machine."""
    return not machine.icount and not machine.emulate and kvm_works()


@cache
def kvm_works() -> bool:
    """Whether KVM works: the processor virtualizes, and a machine with a program of few instructions runs. The file
    /dev/kvm alone says little: KVM may refuse a register, or hang.

    Where /dev/kvm works without virtualization by the processor (kvm-pvm), that program runs, but a stock kernel was
    seen not to boot within minutes.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK) or _VIRTUALIZES.isdisjoint(processor.flags()):
        return False
    with tempfile.NamedTemporaryFile(suffix=".bin", dir=private.temporary()) as firmware:
        firmware.write(_firmware())
        firmware.flush()
        words = [program(), "-nodefaults", "-no-user-config", "-display", "none", "-machine", "pc", "-accel", "kvm"]
        words += ["-cpu", "host", "-m", "16", "-bios", firmware.name, "-device", "isa-debug-exit,iobase=0x501,iosize=1"]
        try:
            done = subprocess.run(words, capture_output=True, timeout=_PROBE_LIMIT, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == _WORKS << 1 | 1  # the exit status by isa-debug-exit


_WORKS: Final = 0x15


def _firmware() -> bytes:
    """A firmware of 64 KiB. A processor starts at its last 16 bytes: mov dx, 0x501; mov al, _WORKS; out dx, al; hlt."""
    code = bytes((0xBA, 0x01, 0x05, 0xB0, _WORKS, 0xEE, 0xF4))
    return bytes(0x10000 - 16) + code.ljust(16, b"\xf4")
