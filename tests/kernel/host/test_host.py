# SPDX-License-Identifier: LGPL-2.1-or-later
"""D's runtime in the stock kernel (native/host/kernel.h): a module runs it, and the consumer reads its memory."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gilk.lab import VM
from gilk.lang.data import Aggregating, Aggregation, Function
from gilk.toolchain.compilers import NATIVE
from gilk.toolchain.kernel_instrument import run_kbuild
from gilk.trace.d.aggregations import AggregationReader
from gilk.trace.d.drops import Drops
from gilk.trace.d.memory import MemoryOptions, ProgramMemory
from gilk.trace.d.records import Records

pytestmark = pytest.mark.xdist_group("lab")
NAME = "gilk_test_host"
SOURCE = Path(__file__).parent / "guest" / NAME
LIMIT = 120.0  # seconds that a command there may take
CPUS = 2
DD = ("dd", f"of=/sys/module/{NAME}/parameters/run", "conv=notrunc", "status=none")
KNOWN = (
    Aggregation(1, "n", Aggregating(Function.COUNT), (), 0),
    Aggregation(2, "s", Aggregating(Function.SUM), (), 16),
    Aggregation(3, "q", Aggregating(Function.QUANTIZE), (), 8),
)
OPTIONS = MemoryOptions(
    CPUS,
    bufsize=1 << 18,
    aggsize=1 << 16,
    dynvarsize=1 << 16,
    specsize=1 << 14,
    nspec=4,
    aggregations=4,
    largest_variable=48,
)


class Module:
    """The module, loaded in the machine."""

    def __init__(self, vm: VM) -> None:
        self._vm, self.layout = vm, OPTIONS.layout()

    def run(self, *command: str, given: bytes = b"") -> str:
        status, out, err = self._vm.run(command, given, timeout=LIMIT)
        assert status == 0, f"{command}: {status}, {err.decode()}"
        return out.decode()

    def test(self, what: str) -> list[list[str]]:
        """Have the module run a test. Returns the lines that it prints, split into words."""
        self.run(*DD, given=what.encode())
        return [line.split() for line in self.run("cat", f"/sys/module/{NAME}/parameters/run").splitlines()]

    def initialise(self) -> None:
        content = bytearray(self.layout.size)
        ProgramMemory(self.layout, content).initialise()
        self.run("dd", f"of=/dev/{NAME}", "bs=1M", "conv=notrunc", "status=none", given=bytes(content))

    def memory(self) -> ProgramMemory:
        """A copy of the program's memory as it is now."""
        status, content, err = self._vm.run(["cat", f"/dev/{NAME}"], timeout=LIMIT)
        assert status == 0, err.decode()
        return ProgramMemory(self.layout, bytearray(content))


@pytest.fixture(scope="module")
def module(vm: VM, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Module]:
    place = tmp_path_factory.mktemp("host") / NAME
    shutil.copytree(SOURCE, place)
    shutil.copytree(NATIVE, place / "native", ignore=shutil.ignore_patterns("ilk"))
    made = Module(vm)
    (place / "layout.h").write_text(made.layout.c_source())
    done = run_kbuild(vm.kernel.headers, place)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr
    made.run("insmod", str(place / f"{NAME}.ko"))
    yield made
    made.run("rmmod", NAME)


def test_the_consumer_reads_what_clauses_wrote(module: Module) -> None:
    """This runs on all processors at once: records, aggregations, variables, speculations."""
    count = 1000
    module.initialise()
    module.test(f"clauses {count}")
    memory = module.memory()
    records = Records(memory).poll(final=True)
    assert not Drops(memory).look()
    assert not [record for record in records if record.epid not in (1, 2)], "a clause had a fault"
    numbers = Counter((record.cpu, record.epid, int.from_bytes(record.data[:8], "little")) for record in records)
    each = [*((1, n) for n in range(count)), *((2, n) for n in range(0, count, 3))]
    assert numbers == {(cpu, *one): 1 for cpu in range(CPUS) for one in each}
    assert all(record.data[8:16] == record.cpu.to_bytes(8, "little") for record in records if record.epid == 1)
    times = [record.tsc for record in records]
    assert times == sorted(times)

    rows = AggregationReader(memory, KNOWN).snapshot()
    assert rows[1, b""] == (CPUS * count,)
    for key in range(4):
        few = key.to_bytes(8, "little")
        for cpu in range(CPUS):
            assert rows[2, few + cpu.to_bytes(8, "little")] == (sum(range(key, count, 4)),)
        buckets = rows[3, few]
        assert sum(buckets) == CPUS * count // 4 and buckets[64 + 8] == CPUS * sum(
            n % 4 == key for n in range(256, 512)
        )
    assert not any(memory.scratch_owners)


def test_records_without_room_are_counted(module: Module) -> None:
    count = 20_000
    module.initialise()
    module.test(f"clauses {count}")
    memory = module.memory()
    records, drops = Records(memory).poll(final=True), sum(Drops(memory).totals().values())
    assert drops and len(records) + drops == CPUS * (count + (count + 2) // 3)
    assert AggregationReader(memory, KNOWN).snapshot()[1, b""] == (CPUS * count,)


#: The number of bytes that can be read, less than 0 if none.
LOADS = {
    **{"module": 27, "text": 64, "struct": 8, "direct": 100, "mapped": 8192},
    **{"half": 4096, "edge": 3},
    **{"guard": -1, "freed": -1, "device": -1, "null": -1, "low": -1, "middle": -1, "hole": -1, "beyond": -1},
    **{"vsyscall": -1, "fixmap": -1, "entry": -1, "last": -1, "around": -1},
}


def test_no_address_that_a_clause_reads_does_harm(module: Module) -> None:
    said = dict(module.test("loads"))
    assert said.pop("unchecked") == "1", "the device could have been read"
    assert {name: int(got) for name, got in said.items()} == LOADS


def test_clauses_read_the_memory_of_the_process(module: Module) -> None:
    """It is read and written in the context of the process's task, but never in an interrupt."""
    assert [" ".join(words) for words in module.test("process")] == [
        *("peek 0", "poke 0", "seen 1", "back 0", "unmapped -1 -1", "interrupt -1 -1", "unchecked 1", "ran 1"),
        *("identity 1", f"text dd of {len(' '.join(DD)) + 1}"),
    ]


def test_the_clock_never_goes_back(module: Module) -> None:
    assert sorted(module.test("clock")) == [["clock", str(cpu), "0", "1", "1"] for cpu in range(CPUS)]


def test_signals_are_sent_when_interrupts_are_on_again(module: Module) -> None:
    """Only the two intended signals are sent, not those for another thread, or with an invalid number."""
    assert module.test("signal") == [["early", "0,", "signals", "2"]]


@pytest.mark.stock
def test_the_kernel_has_no_complaints(module: Module) -> None:
    words = ("WARNING", "BUG", "Oops", "general protection", "self-detected stall")
    assert not [line for line in module.run("dmesg").splitlines() if any(word in line for word in words)]
