# SPDX-License-Identifier: LGPL-2.1-or-later
"""The tests of `make quick` exist, and none of them waits."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import quick

ROOT = quick.ROOT.parent
WAITING = {"time", "subprocess", "threading", "multiprocessing", "socket", "select", "asyncio", "concurrent"}
#: Modules that start compilers or git, and the one that refuses all other programs.
MAY = {"tests.programs.build", "tests.test_layers", "tests.quick"}


def files() -> list[Path]:
    return [file for path in quick.paths() for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))]


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """The names of the modules that a file imports; for `from x import y` these are `x` and `x.y`."""
    return frozenset(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def waiting(path: Path, seen: set[Path]) -> Iterator[str]:
    """The imports of a test file that could wait, with those of the test files that it imports."""
    seen.add(path)
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    if module in MAY:
        return
    for name in imported(path):
        if name.split(".")[0] in WAITING:
            yield f"{module} imports {name}"
        other = ROOT / (name.replace(".", "/") + ".py")
        if name.startswith("tests.") and other.is_file() and other not in seen:
            yield from waiting(other, seen)


def test_all_paths_of_the_quick_lane_exist() -> None:
    assert [path for path in quick.paths() if not path.exists()] == []


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_test_of_the_quick_lane_waits(path: Path) -> None:
    assert list(waiting(path, set())) == []
