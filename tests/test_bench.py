# SPDX-License-Identifier: LGPL-2.1-or-later
"""The benchmark measures what it claims: its programs, its arithmetic, its table. It does not touch the kernel
unasked."""

from __future__ import annotations

import math
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from bench import measure, peer_uftrace, report, start
from bench.__main__ import chosen
from bench.measure import Hot, Many, Programs, Row
from bench.targets.many import source

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
FUNCTIONS = 60


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "BUILD", tmp_path_factory.mktemp("bench"))
        return measure.build(FUNCTIONS)


def test_the_busy_program_measures_the_cost_of_a_call(programs: Programs) -> None:
    with Hot(programs.hot, "leaf") as hot:
        batches: list[float] = []
        for _ in range(50):  # on a busy machine it may not run for a while
            batches += hot.costs(0.2)
            if len(batches) > 5:
                break
        assert hot.status is None
    assert 0.2 < measure.quartile(batches) < 1000
    assert hot.status == 0  # SIGTERM makes it print its total and end


def test_bursts_leave_time_to_keep_up(programs: Programs) -> None:
    with Hot(programs.hot, "leaf", burst=1000) as hot:
        start = time.monotonic()
        batches = hot.costs(0.5)
        taken = time.monotonic() - start
    assert 1 <= len(batches) <= 100 * taken + 20  # a burst takes microseconds, the sleep after it 10 ms


def test_a_function_with_a_wrong_result_is_detected(programs: Programs, tmp_path: Path) -> None:
    """`leaf` returns another constant, as if a probe had spoilt its result."""
    text = (measure.HERE / "targets" / "hot.c").read_text()
    broken = tmp_path / "hot.c"
    broken.write_text(text.replace("return kept * 3 + 1;", "return kept * 3 + 2;"))
    subprocess.run(["cc", "-O2", "-o", tmp_path / "hot", broken], check=True)
    with Hot(tmp_path / "hot", "leaf") as hot:
        for _ in range(50):
            hot.costs(0.2)
            time.sleep(0.02)
            if hot.status is not None:
                break
        assert measure.how_it_ended(hot.status) == "the function returned a wrong value"


def test_addresses_are_those_of_the_process(programs: Programs) -> None:
    """Read the function's bytes where it should be in memory, and compare with objdump's."""
    with Hot(programs.hot, "leaf") as hot:
        hot.costs(0.1)
        address = measure.load_bias(hot.pid, programs.hot) + measure.symbols(programs.hot)["leaf"]
        with open(f"/proc/{hot.pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            live = memory.read(4)
        assert measure.memory(hot.pid) > 0
    listing = subprocess.run(
        ["objdump", "-d", "--disassemble=leaf", programs.hot], capture_output=True, text=True, check=True
    ).stdout
    first = next(line for line in listing.splitlines() if "\t" in line).split("\t")[1]
    assert bytes.fromhex(first)[:4] == live[: len(bytes.fromhex(first))]


def test_the_program_with_many_functions_calls_them(programs: Programs) -> None:
    assert len([name for name in measure.symbols(programs.many) if name.startswith("f000")]) == FUNCTIONS
    with Many(programs.many) as many:
        assert 0 < many.started < 10
        assert many.status is None


def test_bodies_of_generated_functions_differ() -> None:
    bodies = [line.partition("{")[2] for line in source(500).splitlines() if "long f0" in line and "all[]" not in line]
    assert len(set(bodies)) == 500


def test_the_lower_quartile_is_computed() -> None:
    assert measure.quartile([5, 1, 4, 2, 100, 3, 7, 8]) == 3
    assert math.isnan(measure.quartile([]))


LIMITS = {"inc": 0.5, "jump-pair": 0.5, "rdtsc": 10.0, "store-16-bytes": 0.0}


def test_the_table_compares_gilk_with_the_limit_and_others_with_gilk() -> None:
    rows = [
        Row("count at entry", "gilk", 2.0),
        Row("count at entry", "frida", 200.0),
        Row("activate 9 functions", "frida", None, "ms", "it crashed"),
    ]
    lines = list(report.markdown(rows, LIMITS))
    assert "| count at entry | 1.0 ns | 3 ns, met | 2.00 ns (2.0x) | 200 ns (100.0x) |" in lines
    assert "| activate 9 functions |  |  |  | failed |" in lines
    assert lines[-1] == "- frida, activate 9 functions: it crashed"


def test_figures_in_different_units_are_not_compared() -> None:
    """A count is told to the last digit."""
    rows = [Row("aspect: call", "gilk", 8.0), Row("aspect: call", "x", 2.0, "x"), Row("aspect: call", "y", 34184, "")]
    assert "| aspect: call |  |  | 8.00 ns | 2.00 x | 34184 |" in list(report.markdown(rows, LIMITS))


def test_uprobes_are_measured_only_on_request() -> None:
    assert "uprobe" not in chosen(None, kernel_peers=False)
    assert "uprobe" not in chosen(["uprobe"], kernel_peers=False)
    assert chosen(["uprobe"], kernel_peers=True) == ["uprobe"]


def test_uftrace_records_the_calls_that_the_bench_assumes(programs: Programs, tmp_path: Path) -> None:
    data = str(tmp_path / "trace")
    wrapper = ("uftrace", "record", "--no-libcall", "-P", "^leaf$", "-d", data)
    done = subprocess.run([*wrapper, programs.hot, "leaf", "3", "1000"], capture_output=True, text=True)
    assert "calls 3000" in done.stdout
    table = subprocess.run(["uftrace", "report", "-d", data], capture_output=True, text=True).stdout
    assert any(line.split()[-2:] == ["3000", "leaf"] for line in table.splitlines() if line.strip())
    assert set(peer_uftrace.PATTERNS) == {1000, 5000, 11_000}


def test_the_cost_of_a_start_is_of_commands_that_succeed(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo >> {place}/runs"]
    assert start._cost(["sh", "-c", "exit 3"], str(tmp_path), {}) is None
    assert start._median(["sh", "-c", "exit 3"], str(tmp_path), {}) is None
    assert start._median(command, str(tmp_path), {}) is not None
    assert (tmp_path / "runs").read_text() == "\n" * start.AGAIN
