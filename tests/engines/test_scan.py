# SPDX-License-Identifier: LGPL-2.1-or-later
"""Surveys add up, agree with readelf and objdump, come from the cache unchanged, and leave a process alone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gilk.analysis.analysis import Analysis
from gilk.analysis.without_liveness import WithoutLiveness
from gilk.cache import arrays
from gilk.engines.clauses.sites import ITS_OWN_LOOP
from gilk.engines.scan import count as survey_count
from gilk.engines.scan.graph import cfg
from gilk.engines.scan.scanning import scan
from gilk.engines.scan.table import key_of
from gilk.errors import GilkError, ImageError, TargetError, UsageError
from gilk.image.elf import load
from gilk.render.survey import REASONS
from gilk.splice.figures import Survey, refused, spliced
from gilk.splice.graph import Graph
from gilk.splice.patch_context import PatchContext
from gilk.splice.plan import Refusal
from gilk.targets.image import analyse, pretend_loaded
from tests.behaviour.harness import wait_for
from tests.programs.build import build

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def work() -> str:
    return str(build("work"))


def settled(pid: int) -> bool:
    """Whether the process has mapped its libraries, and waits."""
    waits = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
    return waits and "/libc" in Path(f"/proc/{pid}/maps").read_text()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        while not settled(process.pid):
            time.sleep(0.01)
        yield process
        process.kill()


def figures(survey: Survey) -> tuple[object, ...]:
    return survey.functions, survey.blocks, survey.pre, survey.post, list(survey.rows())


def slug(error: pytest.ExceptionInfo[GilkError]) -> str:
    return error.value.slug


def test_every_block_has_a_pre_and_a_post_point(work: str) -> None:
    survey = scan(work)
    assert survey.image == "work"
    for counts in (survey.pre, survey.post):
        assert spliced(counts) + refused(counts) == survey.blocks > 100


def test_figures_of_functions_add_up_to_those_of_the_image(work: str) -> None:
    survey = scan(work)
    rows = list(survey.rows())
    assert len(rows) == survey.functions
    assert sum(row.blocks for row in rows) == survey.blocks
    for outcome, count in survey.pre.items():
        assert sum(row.pre.get(outcome, 0) for row in rows) == count
    for row in rows:
        assert sum(row.pre.values()) == sum(row.post.values()) == row.blocks


def test_functions_are_those_of_readelf(work: str) -> None:
    listed = subprocess.run(["readelf", "-sW", work], capture_output=True, text=True, check=True).stdout
    symbols = re.findall(r": ([0-9a-f]+) +([1-9]\d*) FUNC +\w+ +\w+ +\d+ (\S+)$", listed, re.MULTILINE)
    found = {(row.address, row.size): row.name for row in scan(work).rows()}
    assert len(symbols) > 10
    for address, size, name in symbols:
        assert (int(address, 16), int(size)) in found, name


def test_the_second_scan_comes_from_the_cache_unchanged(work: str) -> None:
    first, second = scan(work), scan(work)
    assert (first.cached, second.cached) == (False, True)
    assert figures(first) == figures(second)


def test_a_stripped_copy_is_scanned_separately(work: str, tmp_path: Path) -> None:
    """The copy has the same build id."""
    stripped = tmp_path / "work"
    subprocess.run(["strip", "-o", stripped, work], check=True)
    full, bare = scan(work), scan(str(stripped))
    assert full.parts[0].build_id == bare.parts[0].build_id
    assert not bare.cached
    assert "main" not in {row.name for row in bare.rows()}


def test_a_damaged_cache_entry_is_not_used(work: str) -> None:
    first = scan(work)
    part: dict[str, arrays.Array] = {"names": np.zeros(3, np.uint8), "about": np.zeros((2, 4), np.int64)}
    arrays.store_arrays(key_of(Path(work)).text, part)
    assert figures(scan(work)) == figures(first)
    wrong = {**part, "counts": np.zeros(5, np.int32)}
    arrays.store_arrays(key_of(Path(work)).text, wrong)
    assert figures(scan(work)) == figures(first)


def test_a_scan_of_some_functions_is_not_cached(work: str) -> None:
    scan(work)
    chosen = scan(work, "ma*n")
    assert [row.name for row in chosen.rows()] == ["main"]
    assert not chosen.cached


def test_two_processes_find_the_same_as_one(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_count, "_may_fork", lambda functions: False)
    alone = scan(work, "*[a-z]*")
    forked, fork = [], os.fork

    def noted() -> int:
        forked.append(fork())
        return forked[-1]

    monkeypatch.setattr(survey_count, "_may_fork", lambda functions: True)
    monkeypatch.setattr(os, "fork", noted)
    assert figures(scan(work, "*[a-z]*")) == figures(alone)
    assert len(forked) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(forked[0], 0)


@pytest.mark.parametrize("name", ["work", "/usr/bin/gzip"])
def test_a_plan_without_code_has_the_tactics_of_one_with_code(name: str) -> None:
    """The oracle is the planner of sessions. Where a pun leads depends on where patches lie, so a few may differ."""
    image = load(Path(name) if name.startswith("/") else build(name))
    jumps = analyse(image).jumps
    found = []
    for analysis, makes_code in ((Analysis(image, jumps), True), (WithoutLiveness(image, jumps), False)):

        def ground(analysis: Analysis = analysis, makes_code: bool = makes_code) -> PatchContext:
            return replace(pretend_loaded(analysis), makes_code=makes_code)

        functions = survey_count.analysed(analysis, image.spans, lambda *_: None)
        found.append(survey_count.outcomes(analysis, ground, functions, lambda *_: None))
    for whole, bare in zip(*found, strict=True):
        assert whole.sum() == bare.sum() > 100
        assert np.abs(whole - bare).sum() <= 8
        steady = [survey_count._COLUMN[name] for name in ("jump", "call", "bounce")]
        assert (whole[:, steady] == bare[:, steady]).all()


def test_a_killed_helper_process_does_not_change_the_result(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_count, "_may_fork", lambda functions: False)
    alone = scan(work, "*[a-z]*")
    monkeypatch.setattr(survey_count, "_may_fork", lambda functions: True)
    monkeypatch.setattr(survey_count, "_while_parent_lives", lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert figures(scan(work, "*[a-z]*")) == figures(alone)


def test_the_garbage_collector_is_left_as_it_was(work: str) -> None:
    import gc

    scan(work)
    assert gc.isenabled()


def test_progress_is_reported(work: str) -> None:
    told: list[tuple[str, int, int]] = []
    scan(work, progress=lambda *what: told.append(what))
    assert told[0][0] == "reading"
    assert {"analysing", "planning"} <= {what for what, *_ in told}
    assert all(0 <= done < total for _, done, total in told)


def test_a_process_is_scanned_at_its_addresses(sleeper: subprocess.Popen[bytes]) -> None:
    survey = scan(f"pid:{sleeper.pid}")
    maps = Path(f"/proc/{sleeper.pid}/maps").read_text().splitlines()
    lowest = min(int(line.partition("-")[0], 16) for line in maps if line.endswith("/sleep"))
    assert survey.image == "sleep"
    assert survey.parts[0].bias == lowest
    assert spliced(survey.pre) + refused(survey.pre) == survey.blocks > 100
    assert "TracerPid:\t0\n" in Path(f"/proc/{sleeper.pid}/status").read_text()


def test_other_images_of_a_process_are_named_by_their_files(sleeper: subprocess.Popen[bytes]) -> None:
    survey = scan(f"pid:{sleeper.pid}", "libc:malloc")
    assert survey.image.startswith("libc")
    assert [row.name for row in survey.rows()] == ["malloc"]
    with pytest.raises(UsageError) as error:
        scan(f"pid:{sleeper.pid}", "libnothing:x")
    assert slug(error) == "no-such-image"
    assert "libc" in error.value.hint


def test_a_program_that_was_replaced_on_disk_is_scanned_as_it_runs(tmp_path: Path) -> None:
    program = tmp_path / "sleep"
    program.write_bytes(Path("/usr/bin/sleep").read_bytes())
    program.chmod(0o755)
    with subprocess.Popen([program, "60"]) as process:
        try:
            # The execution is reported before anything of the program is mapped.
            assert wait_for(lambda: str(program) in Path(f"/proc/{process.pid}/maps").read_text())
            program.unlink()
            program.write_text("something else")
            survey = scan(f"pid:{process.pid}")
        finally:
            process.kill()
    assert survey.image == "sleep"
    assert survey.blocks > 100


@pytest.mark.parametrize("name", ["pid:", "pid:x", "pid:-1", "pid:٣"])
def test_a_pid_that_is_no_number_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as error:
        scan(name)
    assert slug(error) == "bad-target"


def test_a_missing_process_and_a_zombie_are_refused() -> None:
    with pytest.raises(TargetError) as error:
        scan("pid:4194305")
    assert slug(error) == "no-such-process"
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(TargetError) as error:
        scan(f"pid:{ended.pid}")
    ended.wait()
    assert slug(error) == "no-program"


@pytest.mark.skipif(os.geteuid() != 0, reason="root may become somebody else")
def test_scanning_a_process_without_permission_is_refused(sleeper: subprocess.Popen[bytes]) -> None:
    with pytest.raises(TargetError) as error:
        os.seteuid(65534)
        try:
            scan(f"pid:{sleeper.pid}")
        finally:
            os.seteuid(0)
    assert slug(error) == "no-permission"


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [(4, 1, "elf-class"), (18, 183, "elf-machine"), (16, 1, "elf-type"), (0, 0, "not-elf")],
)
def test_files_for_another_machine_or_purpose_are_refused(
    place: int, value: int, expected: str, work: str, tmp_path: Path
) -> None:
    content = bytearray(Path(work).read_bytes())
    content[place] = value
    (tmp_path / "other").write_bytes(content)
    for attempt in (scan, lambda path: cfg(path, "main")):
        with pytest.raises(ImageError) as error:
            attempt(str(tmp_path / "other"))
        assert slug(error) == expected


def test_a_truncated_file_is_refused(work: str, tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(Path(work).read_bytes()[:5000])
    with pytest.raises(ImageError) as error:
        scan(str(tmp_path / "short"))
    assert slug(error) == "elf-truncated"


def test_a_program_name_without_a_path_suggests_its_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ImageError) as error:
        scan("sleep")
    assert slug(error) == "no-such-file"
    assert error.value.hint == f"did you mean {subprocess.check_output(['which', 'sleep'], text=True).strip()}?"


def test_an_unknown_function_suggests_similar_names(work: str) -> None:
    for attempt in (lambda: scan(work, "mian"), lambda: cfg(work, "mian")):
        with pytest.raises(UsageError) as error:
            attempt()
        assert slug(error) == "no-such-function"
        assert "main" in error.value.hint


def disassembled(program: str, graph: Graph) -> dict[int, bytes]:
    """objdump's instructions within the graph."""
    command = ["objdump", "-d", "-w", f"--start-address={graph.start}", f"--stop-address={graph.end}", program]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^ *([0-9a-f]+):\t((?:[0-9a-f]{2} )+)", lines, re.MULTILINE)
    return {int(address, 16): bytes.fromhex(code) for address, code in found}


def test_a_graph_has_the_instructions_of_objdump(work: str) -> None:
    for row in list(scan(work).rows())[:40]:
        if row.blocks:
            graph = cfg(work, f"{row.address:#x}")
            oracle = disassembled(work, graph)
            lines = {line.address: line.code for node in graph.nodes for line in node.lines}
            assert lines.items() <= oracle.items(), row.name


def test_a_graphs_edges_follow_its_jumps(work: str) -> None:
    graph = cfg(work, "main")
    assert len(graph.nodes) > 3
    for node in graph.nodes:
        taken = [graph.nodes[edge.to].start for edge in node.edges if edge.kind in ("taken", "jump")]
        if node.how in ("branch", "jump") and taken:
            target = re.search(r" 0x([0-9a-f]+)$", node.lines[-1].text)
            assert target is not None
            assert taken == [int(target[1], 16)]
        if node.how == "fall":
            assert [graph.nodes[edge.to].start for edge in node.edges] == [node.end]
        assert node.start <= node.post_address <= node.end


def test_points_of_a_graph_agree_with_a_scan(work: str) -> None:
    (row,) = scan(work, "main").rows()
    graph = cfg(work, "main")
    for side, counts in (("pre", row.pre), ("post", row.post)):
        names = [getattr(node, side).name for node in graph.nodes]
        assert {name: names.count(name) for name in names} == counts


def test_functions_that_share_a_name_are_named_by_address(tmp_path: Path) -> None:
    for name in ("one", "two"):
        same = "__attribute__((noinline)) static int same(int x) { return x * 7; }"
        (tmp_path / f"{name}.c").write_text(f"{same}\nint {name}(int x) {{ return same(x); }}\n")
    (tmp_path / "main.c").write_text("int one(int), two(int); int main(int n) { return one(n) + two(n + 3); }")
    program = str(tmp_path / "program")
    sources = [str(tmp_path / f"{name}.c") for name in ("one", "two", "main")]
    subprocess.run(["cc", "-O1", "-fno-ipa-icf", "-o", program, *sources], check=True)
    with pytest.raises(UsageError) as error:
        cfg(program, "same")
    assert slug(error) == "ambiguous-function"
    addresses = re.findall(r"(0x[0-9a-f]+) \(same\)", error.value.hint)
    assert len(addresses) == 2
    assert [f"{cfg(program, address).start:#x}" for address in addresses] == addresses


def test_addresses_outside_of_functions_are_refused(work: str) -> None:
    for text in ("0x10", "0xnothing"):
        with pytest.raises(UsageError) as error:
            cfg(work, text)
        assert slug(error) == "no-such-function"


def test_every_refusal_has_a_sentence_and_a_paragraph() -> None:
    page = (ROOT / "docs" / "refusals.md").read_text()
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == [*map(str, Refusal), ITS_OWN_LOOP]
    assert set(REASONS) == set(Refusal)
    for paragraph in re.split(r"^## .+$", page, flags=re.MULTILINE):
        assert len(paragraph.split()) > 20
