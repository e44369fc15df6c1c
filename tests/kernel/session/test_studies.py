# SPDX-License-Identifier: LGPL-2.1-or-later
"""The paper's studies, as the examples do them."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import ModuleType

import pytest

from gilk import Kernel
from gilk.runs.elsewhere import Elsewhere
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest

EXAMPLES = Path(__file__).parents[3] / "examples" / "kernel"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look for the module there
    spec.loader.exec_module(module)
    return module


def test_gilk_and_ftrace_see_the_same_forks(kernel: KernelTarget, guest: Guest, exchange: Path, tmp_path: Path) -> None:
    """In one task, gilk's time of an event lies between ftrace's time of it and of the next: at entries ftrace comes
    first."""
    study, helpers = example("pulsar_study"), example("studying")
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


@pytest.mark.stress
def test_every_block_behind_fork_is_counted(kernel: KernelTarget, guest: Guest, exchange: Path, tmp_path: Path) -> None:
    """Control goes from each block to one that follows it in the code, possibly by way of blocks that could not be
    spliced."""
    study, helpers = example("fork_study"), example("studying")
    fork = Kernel(kernel, Elsewhere(guest.link, lambda: None))
    phases, restored = study.study(fork, helpers.compiled("pulsar", exchange), 2, 5)
    assert restored
    assert not phases[0].way
    for phase in phases[1:]:
        assert phase.dropped == 0
        assert len(phase.ticks) == len(phase.records) == 10
        assert min(phase.records) > 100
        assert len(phase.costs) > 40
    blocks = {f"kernel:{name}:@{b.block.index}:pre": (name, b.block) for name in study.FUNCTIONS
              for b in fork.function(name).blocks}  # fmt: skip
    starts = {block.start: block for _, block in blocks.values()}
    seen = {point for point, _ in phases[1].way}
    for (before, _), (after, _) in pairwise(phases[1].way):
        (name, block), (other, following) = blocks[before], blocks[after]
        skipped = [starts[s] for s in block.successors if not any(blocks[p][1].start == s for p in seen)]
        ways = {*block.successors, *(s for each in skipped for s in each.successors)}
        assert name != other or following.start in ways or following.index == 0
    study.report(phases, restored)
    study.draw(phases, tmp_path / "fork.png")
    assert (tmp_path / "fork.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.stress
def test_packets_are_those_of_tcpdump(kernel: KernelTarget, guest: Guest, exchange: Path, tmp_path: Path) -> None:
    """On one processor the order is the same too; gilk's point is a few instructions behind tcpdump's."""
    study, helpers = example("network_study"), example("studying")
    program = f"taskset -c 1 {helpers.compiled('traffic', exchange)}"
    traffic = study.study(Kernel(kernel, Elsewhere(guest.link, lambda: None)), program, 5, 8)
    assert traffic.restored
    seen = {name: [(p.ports, p.numbers) for p in packets] for name, packets in traffic.seen.items()}
    assert len(seen["tcpdump"]) > 100
    assert seen["ip_rcv"] == seen["tcpdump"]
    assert Counter(seen["netif_rx_internal"]) == Counter(seen["tcpdump"])
    assert -500_000 < median(traffic.skew("ip_rcv")) < 1_000_000
    assert median(traffic.skew("netif_rx_internal")) < median(traffic.skew("ip_rcv"))
    study.report(traffic)
    study.draw(traffic, tmp_path / "network.png")
    assert (tmp_path / "network.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="same packets"):
        study.Traffic({**traffic.seen, "ip_rcv": traffic.seen["ip_rcv"][1:]}, True).skew("ip_rcv")


@pytest.mark.stress
@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("pulsar_study", ["3", "32", "5000"], r"kernel_clone +96 +96\n"),
        ("fork_study", [], r"before each block +\d+ +\d+ +\d+ +\d+ +(1[5-9]|2\d|3[0-4])\.\d\n"),
        ("network_study", ["60", "60"], r"tcpdump( +[\d.]+){4} +0\n"),
    ],
)
def test_a_study_runs_by_one_command(tmp_path: Path, name: str, words: list[str], said: str) -> None:
    """The study is as large as the paper's, in a machine of its own."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), str(tmp_path), *words]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=3600,
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parents[1] / "src")},
    )
    assert done.returncode == 0, done.stderr
    assert re.search(said, done.stdout), done.stdout
    assert "what it was, byte for byte" in done.stdout
    assert list(tmp_path.glob("*.png"))


@pytest.mark.stress
def test_the_pipe_study_finds_the_slowest_program(kernel: KernelTarget, guest: Guest, tmp_path: Path) -> None:
    """sed has by far the most work: the program that feeds it waits to write, and the one behind it waits to read."""
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
