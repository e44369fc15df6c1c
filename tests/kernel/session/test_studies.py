# SPDX-License-Identifier: LGPL-2.1-or-later
"""The studies of the paper, as the examples make them."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from types import ModuleType

from gilk.api import Kernel
from gilk.session.elsewhere import Elsewhere
from gilk.target.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest

EXAMPLES = Path(__file__).parents[3] / "examples" / "kernel"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pipe_study_finds_the_slowest_program(kernel: KernelTarget, guest: Guest, tmp_path: Path) -> None:
    """sed has by far the most to do: who feeds it waits to write, and who is behind it waits to read."""
    study = example("pipe_study")
    table, restored = study.study(Kernel(kernel, Elsewhere(guest.link, lambda: None)))
    guest.link.close_driver()
    assert restored
    waits = Counter(zip(table["function"].to_pylist(), table["text"].to_pylist(), strict=True))
    assert waits["pipe_write", "cat"] > waits["pipe_write", "sed"]
    assert waits["pipe_read", "grep"] > waits["pipe_read", "sed"]
    study.report(table)
    study.draw(table, tmp_path / "waits.png")
    assert (tmp_path / "waits.png").read_bytes().startswith(b"\x89PNG")
