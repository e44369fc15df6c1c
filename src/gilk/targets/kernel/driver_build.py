# SPDX-License-Identifier: LGPL-2.1-or-later
"""Builds the driver's module with the kernel's own build system, against its headers; products are cached by
content."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from gilk import private
from gilk.cache.place import kernels_dir, subdirectory
from gilk.errors import CompileError, ImageError, TargetError
from gilk.toolchain.compilers import NATIVE
from gilk.toolchain.kernel_instrument import kbuild_directory, run_kbuild

NAME: Final = "ilk"
_BUILT_OF: Final = (".c", ".S", ".h")
_FOLDERS: Final = ("abi", "host", "ilk", "ilk/d", "runtime/d", "runtime/shared")  # folders in native


def running_release() -> str:
    return os.uname().release


def headers_of(release: str) -> Path:
    """The headers of a kernel that are installed, or those of the lab's kernel. Raises TargetError
    driver-no-headers."""
    name = f"usr/src/linux-headers-{release}"
    path = next(filter(_usable, _header_places(release, name)), None)
    if path is None:
        hint = f"apt-get install linux-headers-{release}, or name them by --headers"
        raise TargetError("driver-no-headers", f"there are no headers of the kernel {release}", hint)
    return path


def _header_places(release: str, name: str) -> Iterator[Path]:
    yield from (Path(f"/lib/modules/{release}/build"), Path("/", name))
    with suppress(ImageError):  # an unusable cache has no headers
        yield kernels_dir() / release / name


def _usable(path: Path) -> bool:
    return (path / "Makefile").is_file()


def build(headers: Path) -> Path:
    """The path of ilk.ko for the kernel of these headers; it is built unless the cache has it.

    Raises TargetError driver-no-headers; CompileError driver-no-make, kbuild-path, does-not-compile; ImageError
    cache-unusable.
    """
    if not _usable(headers):
        raise TargetError("driver-no-headers", f"there are no kernel headers in {headers}", "install them there")
    place = subdirectory("driver", _key(headers))
    product = place / f"{NAME}.ko"
    if product.is_file() and private.only_ours(product.lstat()):
        return product
    with kbuild_directory() as work:
        made = _make(headers.resolve(), work)
        staged = place / f".{os.getpid()}.ko"
        shutil.copyfile(made, staged)
        staged.replace(product)
    return product


def _sources() -> Iterator[tuple[str, Path]]:
    """The files of the build directory: their names there, and their paths."""
    for folder in _FOLDERS:
        for name in sorted(os.listdir(NATIVE / folder)):
            if name.endswith(_BUILT_OF if folder.startswith(NAME) else ".h") or name == "Kbuild":
                yield f"{folder}/{name}", NATIVE / folder / name


def _key(headers: Path) -> str:
    digest = hashlib.sha256()
    for name, path in _sources():
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    for name in (".config", "Module.symvers", "include/generated/utsrelease.h", "include/config/kernel.release"):
        path = headers / name
        digest.update(_content_hash(path, path.stat().st_mtime_ns) if path.is_file() else b"")
    return digest.hexdigest()[:24]


@functools.lru_cache(maxsize=16)
def _content_hash(path: Path, _changed: int) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def _make(headers: Path, work: Path) -> Path:
    for name, path in _sources():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, work / name)
    done = run_kbuild(headers, work / NAME)
    if done.returncode:
        raise CompileError("does-not-compile", f"the driver does not compile:\n{done.stderr.strip()}")
    return work / NAME / f"{NAME}.ko"
