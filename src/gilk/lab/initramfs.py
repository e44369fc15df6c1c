# SPDX-License-Identifier: LGPL-2.1-or-later
"""The initial archive (initramfs) from which a virtual machine boots, made for each boot; its init script takes the
place of an init system.

The script loads the modules for the root file system, mounts that copy-on-write, and starts the relay. No services run,
no device manager, no login: a boot takes the kernel's own three seconds and one more.
"""

from __future__ import annotations

import lzma
import shlex
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gilk.lab.kernels import StockKernel

_WANTED: Final = (
    "drivers/virtio/virtio_pci",
    "drivers/char/virtio_console",
    "net/9p/9pnet_virtio",
    "fs/9p/9p",
    "fs/overlayfs/overlay",
)
NETWORK: Final = ("drivers/net/virtio_net", "net/packet/af_packet")
_APPLETS: Final = "sh mount insmod uname mkdir ln hostname ifconfig route rm cp chroot poweroff"

# Before the script come the settings $MODULES, $PYTHON, $TAGS (a tag for each shared directory), $NETWORK and
# share_TAG.
_SCRIPT: Final = r"""
fail() { echo "gilk lab: $*" >/dev/console; poweroff -f; }
try() { "$@" >/dev/console 2>&1 || fail "$* failed"; }
export PATH=/bin
try mount -t proc proc /proc
for module in $MODULES; do try insmod /modules/$module.ko; done
# Whoever runs the machine may put files there while it is up: only what exists is remembered ("loose" keeps no
# negative entries), and what is shared for writing is not remembered at all.
seen=trans=virtio,version=9p2000.L,msize=512000
try mount -t 9p -o ro,$seen,cache=loose root /lower
try mount -t tmpfs -o mode=755 changes /changes
mkdir /changes/upper /changes/work
try mount -t overlay -o lowerdir=/lower,upperdir=/changes/upper,workdir=/changes/work root /new
release=$(uname -r)
mkdir -p /new/proc /new/sys /new/dev /new/run /new/lib/modules/$release
try mount -t 9p -o ro,$seen,cache=loose modules /new/lib/modules/$release
try mount -t proc proc /new/proc
try mount -t sysfs sys /new/sys
try mount -t devtmpfs dev /new/dev
try mount -t tmpfs -o mode=755 run /new/run
mkdir -p /new/dev/pts /new/dev/shm /new/run/lock
try mount -t devpts -o mode=620,ptmxmode=666 pts /new/dev/pts
try mount -t tmpfs -o mode=1777 shm /new/dev/shm
mount -t debugfs debug /new/sys/kernel/debug
mount -t tracefs trace /new/sys/kernel/tracing
mount -t cgroup2 cgroup /new/sys/fs/cgroup
ln -s /proc/self/fd /new/dev/fd
for n in 0:stdin 1:stdout 2:stderr; do ln -s /proc/self/fd/${n%:*} /new/dev/${n#*:}; done
for tag in $TAGS; do
	eval "share=\$share_$tag"
	mkdir -p "/new$share"
	try mount -t 9p -o rw,$seen,cache=mmap $tag "/new$share"
done
hostname lab
ifconfig lo 127.0.0.1 up
if [ "$NETWORK" ]; then
	ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
	route add default gw 10.0.2.2
	rm -f /new/etc/resolv.conf
	echo nameserver 10.0.2.3 >/new/etc/resolv.conf
fi
mkdir /new/run/gilk
cp /relay.py /new/run/gilk/
port=
for each in /new/dev/vport*; do port=${each#/new}; done
[ -e "/new$port" ] || fail no port to speak through
chroot /new "$PYTHON" -I -S /run/gilk/relay.py $port </new/dev/null >/dev/console 2>&1
poweroff -f
"""


def make(kernel: StockKernel, python: str, relay: str, shares: dict[str, str], network: bool) -> bytes:
    """The archive. `shares`: tag -> path at which that directory is mounted in the machine."""
    modules = ordered(kernel, _WANTED + (NETWORK if network else ()))
    names = [_plain(path) for path in modules]
    settings = {
        "MODULES": " ".join(names),
        "PYTHON": python,
        "TAGS": " ".join(shares),
        "NETWORK": "1" if network else "",
    }
    settings |= {f"share_{tag}": place for tag, place in shares.items()}
    lines = [f"{name}={shlex.quote(value)}\n" for name, value in settings.items()]
    archive = CpioArchive()
    for name in ("bin", "modules", "proc", "dev", "lower", "changes", "new"):
        archive.directory(name)
    archive.device("dev/console", 5, 1)
    archive.file("bin/busybox", kernel.busybox.read_bytes(), 0o755)
    for applet in _APPLETS.split():
        archive.link(f"bin/{applet}", "busybox")
    for path in modules:
        content = path.read_bytes()
        archive.file(f"modules/{_plain(path)}.ko", lzma.decompress(content) if path.suffix == ".xz" else content)
    archive.file("relay.py", relay.encode())
    archive.file("init", ("#!/bin/sh\n" + "".join(lines) + _SCRIPT).encode(), 0o755)
    return archive.finish()


def ordered(kernel: StockKernel, wanted: Sequence[str]) -> list[Path]:
    """The files of the wanted modules and all their dependencies, in an order in which they can be loaded. Built-in
    modules, which have no file, are left out."""
    needs, places = {}, {}
    for line in (kernel.modules / "modules.dep").read_text().splitlines():
        module, _, rest = line.partition(":")
        needs[module] = rest.split()
        places[module.partition(".ko")[0]] = module
    found: dict[str, None] = {}  # a set that keeps its order
    for name in (f"kernel/{each}" for each in wanted):
        if name in places:
            found |= dict.fromkeys([*reversed(needs[places[name]]), places[name]])
    return [kernel.modules / name for name in found]


def _plain(module: Path) -> str:
    """The module's name without `.ko` and a compression suffix."""
    return module.name.partition(".ko")[0]


class CpioArchive:
    """A "newc" cpio archive (Documentation/driver-api/early-userspace/buffer-format.rst of the kernel)."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._count = 0

    def directory(self, name: str) -> None:
        self._add(name, stat.S_IFDIR | 0o755)

    def file(self, name: str, content: bytes, mode: int = 0o644) -> None:
        self._add(name, stat.S_IFREG | mode, content)

    def link(self, name: str, target: str) -> None:
        self._add(name, stat.S_IFLNK | 0o777, target.encode())

    def device(self, name: str, major: int, minor: int) -> None:
        self._add(name, stat.S_IFCHR | 0o600, device=(major, minor))

    def finish(self) -> bytes:
        self._add("TRAILER!!!", 0)
        return b"".join(self._parts)

    def _add(self, name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        self._count += 1
        path = name.encode() + b"\0"
        numbers = (self._count, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(path), 0)
        head = b"070701" + b"".join(b"%08x" % number for number in numbers) + path
        self._parts += [head, bytes(-len(head) % 4), content, bytes(-len(content) % 4)]
