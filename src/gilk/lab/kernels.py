# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stock kernels to boot, each in a directory of its own: image, modules, and headers for building modules.

They are Debian's packages, unpacked in `$GILK_KERNELS`, or `kernels` in the cache, which nothing else uses. So neither
/boot nor /lib/modules of this machine is touched, and no privilege is needed.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gilk.cache.place import kernels_dir
from gilk.errors import TargetError, UsageError
from gilk.lab.bzimage import has_direct_entry, payload
from gilk.lab.packages import Archive, require, tool
from gilk.values import dataclass

_RELEASE: Final = re.compile(r"\d+\.\d+[\w.+~-]*")
_STOCK: Final = "linux-image-amd64"  # the package that depends on the current release
_INIT: Final = "busybox-static"  # for the initramfs

Notify = Callable[[str], object]


@dataclass(frozen=True)
class StockKernel:
    """A kernel in the store."""

    release: str  # as uname -r gives it
    root: Path  # the packages' files lie below it

    @property
    def image(self) -> Path:
        """The image as installed: compressed, and it moves itself to a random address."""
        return self.root / f"boot/vmlinuz-{self.release}"

    @property
    def direct(self) -> Path | None:
        """The same image, decompressed; None if it cannot be entered without its decompressor."""
        path = self.root / "vmlinux"
        return path if path.exists() else None

    @property
    def modules(self) -> Path:
        """The directory that is /lib/modules/RELEASE on a machine that runs this kernel."""
        return self.root / "lib/modules" / self.release

    @property
    def headers(self) -> Path:
        """The headers, for `make -C HEADERS M=DIRECTORY`."""
        return self.root / f"usr/src/linux-headers-{self.release}"

    @property
    def busybox(self) -> Path:
        return self.root / "bin/busybox"


def store() -> Path:
    """The directory in which kernels are kept. Raises ImageError cache-unusable."""
    path = kernels_dir()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def kept() -> list[StockKernel]:
    """The kernels in the store, newest first."""
    found = [StockKernel(path.name, path) for path in store().iterdir() if _RELEASE.fullmatch(path.name)]
    return sorted(found, key=lambda kernel: _age(kernel.release), reverse=True)


def find(release: str = "", notify: Notify = lambda _: None) -> StockKernel:
    """The kernel of that release, or the newest in the store; fetched if it is not there.

    `notify` is called before anything is fetched. Raises UsageError bad-release; TargetError lab-no-kernel,
    lab-no-tool, lab-fetch-failed.
    """
    if release and not _RELEASE.fullmatch(release):
        raise UsageError("bad-release", f"{release!r} is not a kernel release", "for example 6.1.0-56-amd64")
    with _locked():
        for kernel in kept():
            if release in ("", kernel.release):
                return kernel
        return _fetch(release, notify)


@contextmanager
def _locked() -> Iterator[None]:
    """A context that holds the lock for fetching: one process fetches, and the others wait and find the kernel
    there."""
    lock = os.open(store() / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _fetch(release: str, notify: Notify) -> StockKernel:
    require("depmod")
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=store()) as name:
        work, root = Path(name), Path(name) / "root"
        work.chmod(0o755)  # apt fetches as another user, which needs access
        archive = Archive(work)
        release = release or _current(archive)
        image, headers = f"linux-image-{release}", f"linux-headers-{release}"
        built = [each for each in archive.depends(headers) if each.startswith(("linux-headers-", "linux-kbuild-"))]
        if not archive.depends(image) or not built:
            hint = "apt-cache search --names-only '^linux-image-.*-amd64$' lists those there are"
            raise TargetError("lab-no-kernel", f"no kernel {release} with headers among this system's packages", hint)
        notify(f"fetching the kernel {release} (85 MB; 500 MB unpacked in {store()})")
        archive.unpack([image, headers, *built, _INIT], root)
        final = store() / release
        _settle(StockKernel(release, root), final)
        root.rename(final)
        return StockKernel(release, final)


def _current(archive: Archive) -> str:
    names = [name.removeprefix("linux-image-") for name in archive.depends(_STOCK)]
    for name in names:
        if _RELEASE.fullmatch(name):
            return name
    raise TargetError(
        "lab-no-kernel",
        f"this system has no package {_STOCK}",
        "the lab needs Debian's packages, or a kernel put into GILK_KERNELS",
    )


def _settle(kernel: StockKernel, final: Path) -> None:
    """Do what installing the packages would do, with paths for ``final``, the place where they will lie."""
    tool(["depmod", "-b", kernel.root, kernel.release], kernel.root)
    makefile = kernel.headers / "Makefile"
    makefile.write_text(makefile.read_text().replace("/usr/src/", f"{final}/usr/src/"))
    for name in ("build", "source"):
        link = kernel.modules / name
        if link.is_symlink():
            target = os.readlink(link)
            link.unlink()
            link.symlink_to(f"{final}{target}")
    direct = payload(kernel.image.read_bytes())
    if direct is not None and has_direct_entry(direct):
        (kernel.root / "vmlinux").write_bytes(direct)
    shutil.rmtree(kernel.root / "usr/share", ignore_errors=True)  # documentation


def _age(release: str) -> list[tuple[int, str]]:
    """A sort key for releases, in which numbers are compared as numbers."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"[.+~-]", release)]
