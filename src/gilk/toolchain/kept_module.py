# SPDX-License-Identifier: LGPL-2.1-or-later
"""Caches kernel modules between runs, by everything that they are made of: kbuild takes seconds for each."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from gilk.cache.blobs import load_blob, store_blob
from gilk.digest import digest
from gilk.toolchain.compilers import NATIVE
from gilk.toolchain.kernel_instrument import ModuleFile, compile_module

_KIND = "modules"
_FOLDERS = ("include", "include/kernel", "abi", "host")  # folders in native
_OF_HEADERS = (".config", "Module.symvers", "include/generated/utsrelease.h", "include/config/kernel.release")
_COMPILED_AS = "gilk_" + 12 * "0"  # the name that kept_module() replaces by one of equal length


def kept_module(files: Mapping[str, str], kbuild: Callable[[str], str], headers: Path) -> ModuleFile:
    """A module made of C files, under a new, unique name. ``kbuild``: returns the text for kbuild, given the name.
    Raises as compile_module() does."""
    text = kbuild(_COMPILED_AS)
    key = b"\0".join(digest(part).digest() for part in _parts(files, text, headers))
    found = load_blob(_KIND, key)
    if found is None:
        made = compile_module(_COMPILED_AS, files, text, headers)
        found = json.dumps(made.functions).encode() + b"\n" + made.content
        store_blob(_KIND, key, found)
    said, _, content = found.partition(b"\n")
    name = f"gilk_{secrets.token_hex(6)}"
    return ModuleFile(name, content.replace(_COMPILED_AS.encode(), name.encode()), json.loads(said))


def _parts(files: Mapping[str, str], kbuild: str, headers: Path) -> Iterator[bytes]:
    """The contents of everything that the module is made of."""
    yield kbuild.encode()
    yield from (f"{name}\0{text}".encode() for name, text in sorted(files.items()))
    for folder in _FOLDERS:
        yield from (path.name.encode() + path.read_bytes() for path in sorted((NATIVE / folder).glob("*.h")))
    for name in _OF_HEADERS:
        yield (headers / name).read_bytes() if (headers / name).is_file() else b""
