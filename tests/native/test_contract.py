# SPDX-License-Identifier: LGPL-2.1-or-later
"""The compiler enforces on the hosts what native/host/host.h promises."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gilk.toolchain.compilers import NATIVE, compiler, flags

HOST = NATIVE / "host"
PROMISES = re.compile(r"^static inline [\w *]*?\b(host_\w+)\([^)]*\);$", re.MULTILINE)
NAMES = PROMISES.findall((HOST / "host.h").read_text())
OPTIONS = {"process": [], "test": ["-DGILK_HOST_TEST", "-D_GNU_SOURCE="]}


def compiled(native: Path, place: Path, host: str) -> subprocess.CompletedProcess[str]:
    source = place / "contract.c"
    source.write_text('#include "host/host.h"\n')
    command = [*compiler(), *flags(), "-Werror", *OPTIONS[host], "-I", str(native)]
    return subprocess.run(
        [*command, "-c", str(source), "-o", str(place / "contract.o")], capture_output=True, text=True
    )


def changed(place: Path, pattern: str, replacement: str) -> Path:
    """A copy of native/ with a change in the host of a process."""
    for part in ("abi", "host"):
        shutil.copytree(NATIVE / part, place / part)
    changes = 0
    for path in (place / "host" / "process.h", place / "host" / "own.h"):
        text, count = re.subn(pattern, replacement, path.read_text(), flags=re.MULTILINE)
        path.write_text(text)
        changes += count
    assert changes
    return place


@pytest.mark.parametrize("host", OPTIONS)
def test_a_host_defines_every_promised_function(tmp_path: Path, host: str) -> None:
    done = compiled(NATIVE, tmp_path, host)
    assert done.returncode == 0, done.stderr


def test_each_promise_has_a_comment() -> None:
    assert len(NAMES) == len(set(NAMES)) > 20
    text = (HOST / "host.h").read_text()
    for promise in PROMISES.finditer(text):
        assert text[: promise.start()].endswith("*/\n"), f"{promise[1]} has no comment"


@pytest.mark.parametrize("name", NAMES)
def test_a_host_that_lacks_a_function_does_not_compile(tmp_path: Path, name: str) -> None:
    native = changed(tmp_path / "native", rf"\b{name}\((?=[^;{{]*\)\n\{{)", f"no_{name}(")
    done = compiled(native, tmp_path, "process")
    assert done.returncode and re.search(rf"\b{name}\b", done.stderr), done.stderr


def test_a_function_of_another_type_does_not_compile(tmp_path: Path) -> None:
    native = changed(tmp_path / "native", r"^static inline gilk_u32 host_tid", "static inline gilk_u64 host_tid")
    done = compiled(native, tmp_path, "process")
    assert done.returncode and "host_tid" in done.stderr
