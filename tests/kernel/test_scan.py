# SPDX-License-Identifier: LGPL-2.1-or-later
"""Scanning a stock kernel: arithmetic and planner agree, figures add up, and nothing is computed twice."""

from __future__ import annotations

import random
import resource
import subprocess
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gilk.engines.scan import kernel as survey_kernel
from gilk.engines.scan.count import wants
from gilk.engines.scan.graph import cfg
from gilk.engines.scan.kernel import PLANNING, KernelSubject
from gilk.engines.scan.scanning import scan
from gilk.errors import UsageError
from gilk.lab import VM
from gilk.render.survey import to_json, to_text
from gilk.splice.figures import POST, PRE, Survey
from gilk.splice.kernel.blocks import Blocks, Instructions
from gilk.splice.kernel.census import Census
from gilk.splice.plan import Refusal
from gilk.splice.tactics.table import OUTCOMES
from gilk.targets.kernel.image import read

#: Cases that the arithmetic does not decide: which of several points gets the room, and copies.
CONTESTED = {"bounce", "copy", "trap"}


@pytest.fixture(scope="module")
def subject(vm: VM) -> KernelSubject:
    vm.link.run(["sh", "-c", "modprobe ext4"])
    return KernelSubject(vm.link)


@pytest.fixture
def known(subject: KernelSubject, monkeypatch: pytest.MonkeyPatch) -> KernelSubject:
    """The subject, for tests that need no kernel that is read anew."""
    monkeypatch.setattr(survey_kernel, "KernelSubject", lambda link: subject)
    return subject


@pytest.fixture(scope="module")
def survey(vm: VM, subject: KernelSubject, tmp_path_factory: pytest.TempPathFactory) -> Survey:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GILK_CACHE", str(tmp_path_factory.mktemp("cache")))
        first = scan("kernel", link=vm.link)
        second = scan("kernel", link=vm.link)
        assert not first.cached and second.cached
        assert to_json(second, True)["list"] == to_json(first, True)["list"]
    return first


class TestCensus:
    @pytest.mark.parametrize("side", [PRE, POST])
    def test_the_census_agrees_with_the_planner(self, subject: KernelSubject, side: int) -> None:
        kernel, analysis = subject.kernel, subject.analysis
        blocks = Blocks.of(code := Instructions(kernel, analysis))
        census = Census(code, blocks)
        column = census.pre if side == PRE else census.post
        ground = subject.ground()
        pairs: Counter[tuple[str, str]] = Counter()
        for number in sorted(random.Random(4).sample(range(len(kernel.image.spans)), 500), reverse=True):
            function = analysis.function(kernel.image.spans[number])
            (made,) = PLANNING.plan(ground, [(function, wants(analysis, function, side, PLANNING))]).functions
            low = int(np.searchsorted(blocks.owner, number))
            for block in function.blocks:
                planned = made.tactics.get(block.index) or made.refusals[block.index]
                pairs[str(planned), OUTCOMES[column[low + block.index]]] += 1
        wrong = {pair: count for pair, count in pairs.items() if pair[0] != pair[1]}
        decided = {pair: count for pair, count in wrong.items() if not CONTESTED.issuperset(pair)}
        assert sum(pairs.values()) > 4000
        assert sum(wrong.values()) <= 0.02 * sum(pairs.values()), wrong
        assert sum(decided.values()) <= 0.001 * sum(pairs.values()), decided


class TestScan:
    def test_figures_of_a_kernel_scan_add_up(self, survey: Survey) -> None:
        assert survey.functions > 46_000
        assert survey.blocks > 540_000
        for counts in (survey.pre, survey.post):
            assert sum(counts.values()) == survey.blocks
        assert sum(row.blocks for row in survey.rows()) == survey.blocks

    def test_nearly_all_allowed_points_are_spliced_without_a_trap(self, survey: Survey) -> None:
        for counts in (survey.pre, survey.post):
            allowed = survey.blocks - sum(counts[reason] for reason in Refusal)
            assert allowed - counts["trap"] >= 0.97 * allowed
            assert allowed >= 0.95 * survey.blocks

    def test_addresses_are_those_of_the_running_kernel(self, survey: Survey, vm: VM) -> None:
        live: dict[str, int] = {}
        for line in vm.link.read_file("/proc/kallsyms").decode().splitlines():
            address, _, name, *_ = line.split()
            live.setdefault(name, int(address, 16))
        rows = {row.name: row for row in survey.rows()}
        for name in ("vfs_read", "tcp_sendmsg", "ext4_sync_file"):
            assert rows[name].address == live[name]
        assert rows["ext4_sync_file"].image == "ext4"
        assert rows["vfs_read"].image == "kernel"

    def test_a_kernel_scan_is_shown_as_text_and_json(self, survey: Survey) -> None:
        text = to_text(survey)
        assert text.startswith("kernel: /proc/kcore\nand ")
        found = to_json(survey, True)
        assert found["blocks"] == survey.blocks
        assert {"kernel", "ext4"} <= {image["image"] for image in found["images"]}
        assert len(found["list"]) == survey.functions

    def test_chosen_functions_are_planned_by_the_planner(self, known: KernelSubject, vm: VM, survey: Survey) -> None:
        chosen = scan("kernel", "tcp_sendm*", link=vm.link)
        names = sorted(row.name for row in chosen.rows())
        assert names == sorted(row.name for row in survey.rows() if row.name.startswith("tcp_sendm"))
        assert not chosen.cached

    @pytest.mark.stress
    def test_modules_are_scanned_by_name(self, known: KernelSubject, vm: VM, survey: Survey) -> None:
        module = scan("kernel", "ext4:*", link=vm.link)
        assert [part.image for part in module.parts] == ["ext4"]
        assert module.functions == sum(row.image == "ext4" for row in survey.rows())

    @pytest.mark.parametrize(
        ("glob", "slug"),
        [("none_*", "no-such-function"), ("nomodule:x", "no-such-image"), ("ext4:vfs_read", "no-such-function")],
    )
    def test_unknown_functions_and_modules_are_refused(
        self, known: KernelSubject, vm: VM, glob: str, slug: str
    ) -> None:
        with pytest.raises(UsageError) as caught:
            scan("kernel", glob, link=vm.link)
        assert caught.value.slug == slug


class TestGraph:
    def test_the_graph_of_pipe_write(self, known: KernelSubject, vm: VM) -> None:
        graph = cfg("kernel", "pipe_write", vm.link)
        assert graph.image == "kernel" and graph.function == "pipe_write"
        first = graph.nodes[0]
        assert first.start == graph.start and first.lines[0].code == bytes.fromhex("0f1f440000")
        assert not first.pre.refused
        called = {line.symbol for node in graph.nodes for line in node.lines}
        assert {"mutex_lock", "mutex_unlock"} <= called  # fs/pipe.c
        assert any(node.how == "return" for node in graph.nodes)

    def test_a_graph_by_address(self, known: KernelSubject, vm: VM) -> None:
        graph = cfg("kernel", "vfs_read", vm.link)
        assert cfg("kernel", f"{graph.start + 8:#x}", vm.link).function == "vfs_read"


def test_scanning_the_kernel_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a user who is not root, /proc/kallsyms shows only zeros."""
    from gilk.errors import ImageError

    class Blind:
        def read_file(self, path: str) -> bytes:
            return b"0000000000000000 T _stext\n" if path == "/proc/kallsyms" else b""

    monkeypatch.setenv("GILK_CACHE", str(tmp_path))
    with pytest.raises(ImageError) as caught:
        survey_kernel.KernelSubject(Blind()).kernel  # type: ignore[arg-type] # noqa: B018
    assert caught.value.slug == "kernel-symbols"
    assert "root" in caught.value.hint


@pytest.mark.stress
def test_a_scan_is_no_slower_than_objdump_of_the_same_bytes(
    vm: VM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison is of processor time, with a margin for a busy machine: on a quiet one the scan takes less."""
    snapshot = read(vm.link)
    monkeypatch.setattr(KernelSubject, "read", lambda self: snapshot)
    monkeypatch.setenv("GILK_CACHE", str(tmp_path))
    begun = time.process_time()
    scan("kernel", link=vm.link)
    ours = time.process_time() - begun
    (tmp_path / "text").write_bytes(b"".join(part.text.data for part in snapshot.parts))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    command = ["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", str(tmp_path / "text")]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    theirs = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    assert ours < 1.3 * theirs, (ours, theirs)
