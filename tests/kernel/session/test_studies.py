# SPDX-License-Identifier: LGPL-2.1-or-later
"""The studies of the paper, as the examples make them."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from gilk.api import Kernel
from gilk.session.elsewhere import Elsewhere
from gilk.target.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest

EXAMPLES = Path(__file__).parents[3] / "examples" / "kernel"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def test_two_tracers_see_the_same_forks(kernel: KernelTarget, guest: Guest, exchange: Path, tmp_path: Path) -> None:
    """Of one task, gilk's time of an event lies between ftrace's of it and of the next: at entries ftrace is first."""
    study, helpers = example("pulsar_study"), example("study")
    program = helpers.compiled("pulsar", exchange)
    result = study.study(Kernel(kernel, Elsewhere(guest.link, lambda: None)), program, 2, 10, 50)
    guest.link.close_driver()
    assert result.restored
    assert Counter(event.function for event in result.gilk) == {"kernel_clone": 20, "do_exit": 21, "kernel_wait4": 20}
    ours, theirs = study.matched(result.gilk, result.ftrace), {}
    for mine, event in ours:
        if event.tid in theirs:
            assert theirs[event.tid].time < event.time
        assert event.time < mine.time
        theirs[event.tid] = mine
    study.report(result)
    study.draw(result, tmp_path / "pulsar.png")
    assert (tmp_path / "pulsar.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="gilk has None"):
        study.matched(result.gilk[:-1], result.ftrace)
    with pytest.raises(ValueError, match="ftrace does not have 1"):
        study.matched(result.gilk, result.ftrace[:-1])


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
