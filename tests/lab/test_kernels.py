# SPDX-License-Identifier: LGPL-2.1-or-later
"""Kernels: the choice among them, the error if there is none, and the files made of their packages."""

from __future__ import annotations

import gzip
import lzma
import os
import struct
import subprocess
from pathlib import Path

import pytest

from gilk.errors import GilkError, ImageError
from gilk.lab import bzimage, find, initramfs, kept
from gilk.lab.packages import tool

ELF = b"\x7fELF" + os.urandom(5000)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store without kernels."""
    monkeypatch.setenv("GILK_KERNELS", str(tmp_path / "kernels"))
    return tmp_path


def slug_of(release: str = "") -> str:
    with pytest.raises(GilkError) as caught:
        find(release)
    return caught.value.slug


def script(path: Path, *lines: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


def test_the_newest_kernel_is_chosen_by_number(empty: Path) -> None:
    for release in ("6.1.0-9-amd64", "6.1.0-56-amd64", "6.1.0-10-amd64", ".fetch-1", "6.1.0-56-rt-amd64"):
        (empty / "kernels" / release).mkdir(parents=True)
    assert [kernel.release for kernel in kept()][-2:] == ["6.1.0-10-amd64", "6.1.0-9-amd64"]
    assert find().release.startswith("6.1.0-56-")
    assert find("6.1.0-9-amd64").release == "6.1.0-9-amd64"


@pytest.mark.parametrize("release", ["../etc", "6", "6.1 x", "-o", "6.1/x", "latest"])
def test_malformed_releases_are_refused(empty: Path, release: str) -> None:
    assert slug_of(release) == "bad-release"


def test_fetching_a_kernel_without_apt_is_an_error(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(empty))
    assert slug_of() == "lab-no-tool"


def test_fetching_an_unknown_release_is_an_error(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("apt-get", "apt-cache"):
        script(empty / "bin" / name, "exit 0")
    monkeypatch.setenv("PATH", f"{empty}/bin:{os.environ['PATH']}")
    assert slug_of("9.9.9-1-amd64") == slug_of() == "lab-no-kernel"


def test_fetching_a_kernel_without_network_leaves_no_files(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No half-finished download stays, and apt's message is passed on."""
    script(empty / "bin" / "apt-get", "echo 'could not resolve' >&2", "exit 100")
    script(empty / "bin" / "apt-cache", "echo '  Depends: linux-headers-6.1.0-1-common'")
    monkeypatch.setenv("PATH", f"{empty}/bin:{os.environ['PATH']}")
    with pytest.raises(GilkError) as caught:
        find("6.1.0-1-amd64")
    assert caught.value.slug == "lab-fetch-failed"
    assert "could not resolve" in caught.value.hint
    assert [path.name for path in (empty / "kernels").iterdir()] == [".lock"]


def image(packed: bytes, setup: int = 4) -> bytes:
    """A bzImage as in boot.rst: magic, number of set-up sectors, and the place of the payload."""
    head = bytearray((setup + 1) * 512)
    head[0x1F1] = setup
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", head, 0x248, 100, len(packed))
    return bytes(head) + bytes(100) + packed + b"what follows"


@pytest.mark.parametrize("pack", [gzip.compress, lambda data: lzma.compress(data, lzma.FORMAT_XZ)])
def test_a_kernel_is_unpacked_from_its_image(pack: object) -> None:
    assert callable(pack)
    length = struct.pack("<I", len(ELF))  # behind the compressed data
    assert bzimage.payload(image(pack(ELF) + length)) == ELF


def test_a_kernel_packed_otherwise_is_left_alone() -> None:
    assert bzimage.payload(image(b"\x28\xb5\x2f\xfd" + bytes(100))) is None


@pytest.mark.parametrize(
    "data", [b"", bytes(5000), image(gzip.compress(b"no ELF")), image(gzip.compress(ELF)[:20] + bytes(90))]
)
def test_damaged_kernel_images_are_refused(data: bytes) -> None:
    with pytest.raises(ImageError) as caught:
        bzimage.payload(data)
    assert caught.value.slug == "kernel-image"


class TestStockKernel:
    """The stock kernel, which is fetched if it is not there yet."""

    def test_binutils_know_the_kernel_that_was_unpacked(self) -> None:
        direct = find().direct
        assert direct is not None
        notes = subprocess.run(["readelf", "-n", direct], capture_output=True, text=True, check=True).stdout
        assert "(0x00000012)" in notes  # the entry at which QEMU starts it

    def test_modules_are_in_modprobes_order(self) -> None:
        kernel = find()
        paths = initramfs.ordered(kernel, ["fs/9p/9p", "net/9p/9pnet_virtio"])
        asked = ["modprobe", "-d", kernel.root, "-S", kernel.release, "--show-depends", "9p"]
        wanted = [Path(line.split()[1]).name for line in tool(asked, kernel.root).splitlines()]
        names = [path.name for path in paths]
        assert [name for name in names if name in wanted] == wanted
        assert len(set(names)) == len(names)

    def test_busybox_unpacks_the_archive(self, tmp_path: Path) -> None:
        kernel = find()
        data = initramfs.make(kernel, "/usr/bin/python3", "the relay", {"share0": "/a place"}, network=True)
        subprocess.run([kernel.busybox, "cpio", "-i", "-d"], cwd=tmp_path, input=data, capture_output=True)
        assert (tmp_path / "bin/busybox").read_bytes() == kernel.busybox.read_bytes()
        assert (tmp_path / "relay.py").read_text() == "the relay"
        assert os.readlink(tmp_path / "bin/sh") == "busybox"
        assert subprocess.run(["sh", "-n", tmp_path / "init"]).returncode == 0
        assert "share_share0='/a place'\n" in (tmp_path / "init").read_text()
        modules = {path.stem: path for path in (tmp_path / "modules").iterdir()}
        assert {"9p", "overlay", "virtio_net"} <= set(modules)
        assert modules["9p"].read_bytes() == (kernel.modules / "kernel/fs/9p/9p.ko").read_bytes()
