# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs to read: the system's own, and small ones built for the occasion."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SYSTEM = [
    "/bin/bash",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib64/ld-linux-x86-64.so.2",
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    "/usr/bin/gdb",
]
SMALL = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int __attribute__((noinline)) twice(int x) { return 2 * x + (int)strlen("abc"); }
int visible(int x) { return twice(x) + rand(); }
extern __typeof__(visible) other_name __attribute__((alias("visible")));
static int first(void) { return 1; }
static int second(void) { return 2; }
int (*const table[])(void) = { first, second };
int main(int argc, char **argv) { printf("%d %d\n", visible(argc), table[argc & 1]()); return puts(argv[0]) < 0; }
"""
IFUNC = r"""
static int one(void) { return 1; }
static int (*resolve(void))(void) { return one; }
int chosen(void) __attribute__((ifunc("resolve")));
int call(void) { return chosen() + 1; }
int main(void) { return call(); }
"""
THROWS = r"""
#include <stdexcept>
#include <string>
struct Guard { std::string s; ~Guard() { s.clear(); } };
int __attribute__((noinline)) risky(int x) { if (x > 2) throw std::runtime_error("no"); return x; }
int careful(int x) {
    Guard guard;
    try { return risky(x) + risky(x + 1); }
    catch (const std::runtime_error &e) { return (int)guard.s.size() - 1; }
    catch (int i) { return i; }
}
int __attribute__((noinline)) nested(int x) {
    try { Guard one; try { Guard two; return careful(x) + risky(x); } catch (int) { return risky(x + 2); } }
    catch (...) { return 7; }
}
int main(int argc, char **) { return nested(argc) + careful(argc) + careful(argc + 5); }
"""

Build = Callable[..., Path]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """build(source, *flags, language="c") compiles a program once per session and returns its path."""
    known: dict[tuple[str, ...], Path] = {}

    def make(source: str, *flags: str, language: str = "c") -> Path:
        key = (source, language, *flags)
        if key not in known:
            path = tmp_path_factory.mktemp("build") / "program"
            compiler = "g++" if language == "c++" else "gcc"
            command = [compiler, "-O2", "-x", language, "-", "-o", str(path), *flags]
            subprocess.run(command, input=source, text=True, check=True, capture_output=True)
            known[key] = path
        return known[key]

    return make


@pytest.fixture(params=SYSTEM, ids=lambda path: Path(path).name)
def system_file(request: pytest.FixtureRequest) -> Path:
    """A program or library of this machine."""
    path = Path(request.param)
    if not path.exists():
        pytest.skip(f"no {path} here")
    return path


def run(*command: str | Path) -> str:
    """Standard output of a tool that serves as an oracle."""
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"no {command[0]} here")
    done = subprocess.run([str(word) for word in command], capture_output=True, check=True)
    return done.stdout.decode("utf-8", "replace")


def strip_sections(data: bytes) -> bytes:
    """The same program without its section header table (e_shoff, e_shentsize, e_shnum, e_shstrndx)."""
    return data[:40] + bytes(8) + data[48:58] + bytes(6) + data[64:]


@pytest.fixture(scope="session", name="strip_sections")
def _strip_sections() -> Callable[[bytes], bytes]:
    return strip_sections


@pytest.fixture(scope="session")
def oracle() -> Callable[..., str]:
    return run


@pytest.fixture(scope="session")
def sources() -> dict[str, str]:
    return {"small": SMALL, "ifunc": IFUNC, "throws": THROWS}
