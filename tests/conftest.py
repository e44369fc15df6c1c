# SPDX-License-Identifier: LGPL-2.1-or-later
"""Settings, fixtures and hooks for all tests."""

from __future__ import annotations

import gc
import os
import shlex
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.guard import guard

if "PYTEST_XDIST_WORKER" not in os.environ:
    guard()  # first of all: later imports may start threads

from hypothesis import settings

from gilk.errors import GilkError
from tests.places import ROOT, build_place, settle

if TYPE_CHECKING:
    import execnet
    from xdist.scheduler import LoadScopeScheduling

settle()  # kernels are fetched once even for tests that have a cache of their own
# Most tests start gilk. Keeping its bytecode saves compiling it each time, even in a read-only checkout.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("PYTHONPYCACHEPREFIX", str(build_place() / "bytecode"))
for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):  # of `make test`: a make that is traced would be a part of it
    os.environ.pop(name, None)
os.environ["GILK_PROGRESS"] = "0"  # no progress lines, which a busy machine would show
os.environ["OPENBLAS_NUM_THREADS"] = (
    "1"  # numpy's library would start a thread for each processor, which turns and waits
)
# Tests of correctness do not depend on timing, nor on how long an example of hypothesis takes.
settings.register_profile("gilk", deadline=None)
settings.load_profile("gilk")
# A shell has its background jobs, and everything started from them, ignore SIGINT; some tests send that signal.
signal.signal(signal.SIGINT, signal.default_int_handler)


_LONGEST = ("tests/kernel/", "tests/behaviour/")  # the first one needs the virtual machine


@pytest.fixture(scope="session")
def run_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that was empty when this run of the tests began, for all its workers: what another version has found must
    not replace what this one finds, and what one worker has analysed or compiled serves the others."""
    base = tmp_path_factory.getbasetemp()
    path = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


@pytest.fixture(scope="session")
def gilk_on_path(tmp_path_factory: pytest.TempPathFactory, run_cache: Path) -> dict[str, str]:
    """An environment in which `gilk` is this checkout, whether or not it is installed, with the cache of this run."""
    directory = tmp_path_factory.mktemp("bin")
    command = directory / "gilk"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gilk "$@"\n')
    command.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{directory}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "GILK_CACHE": str(run_cache),
        "NO_COLOR": "1",
    }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the error's hint to the report of a failed test; for a virtual machine it has the console, and where the
    processors are."""
    made = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, GilkError):
        made.sections.append(("hint", call.excinfo.value.hint))
    return made


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs: list[execnet.XSpec]) -> None:
    """Start each worker of xdist under a reaper of its own."""
    for spec in specs:
        spec.python = shlex.join([spec.python or sys.executable, str(ROOT / "tests" / "guard.py")])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    """Give all tests of a file to one worker, because they may share what took long to make, and all tests of the
    kernel, because they share a virtual machine.

    xdist's own groups (`--dist loadgroup`) do nothing with pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class OneMachine(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "the virtual machine" if nodeid.startswith(_LONGEST[0]) else nodeid.partition("::")[0]

    config.option.loadscopereorder = False
    return OneMachine(config, log)


def pytest_collection_finish() -> None:
    """Spare the garbage collector the thousands of tests: it need not look at them in each collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)  # those of gilk's own commands


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """If several workers share the tests, put those that take longest first, so that no worker still runs one when
    all others have ended."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: [not item.nodeid.startswith(place) for place in _LONGEST])
