# SPDX-License-Identifier: LGPL-2.1-or-later
"""The runtime, loaded into this process; each test begins without known threads."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest

from gilk.toolchain.compilers import NATIVE, flags
from tests.native.host import HOSTS, TestHost, build
from tests.native.runtime.arena import Arena

SOURCES = [Path(__file__).with_name("harness.c"), *sorted((NATIVE / "runtime").glob("*.c"))]


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    alias = "-Wl,--defsym=gilk_control=gilk_params"
    loaded = ctypes.CDLL(str(build(SOURCES, "runtime", *flags(), "-shared", "-fPIC", alias, *HOSTS["test"])))
    loaded.t_block.restype = ctypes.c_void_p
    return loaded


@pytest.fixture
def host(library: ctypes.CDLL) -> Iterator[TestHost]:
    found = TestHost.of(library)
    found.reset()
    yield found
    found.reset()


@pytest.fixture
def arena(library: ctypes.CDLL, host: TestHost) -> Arena:
    made = Arena()
    library.t_open(ctypes.c_void_p(made.address), None)
    return made
