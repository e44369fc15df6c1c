# SPDX-License-Identifier: LGPL-2.1-or-later
"""Samples of the processors: they say what a program does whose addresses, stack and processor are known from /proc."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gilk.errors import TargetError
from gilk.targets.processor_samples import _PAGE as PAGE
from gilk.targets.processor_samples import _RING as RING
from gilk.targets.processor_samples import Counted, ProcessorSample, ProcessorSamples, _Ring
from gilk.targets.running import PC
from gilk.targets.sampled_process import SampledProcess, SharedImages
from gilk.targets.topology import online
from tests.programs.build import compile_text

SPINS = "int main(void) { for (volatile unsigned long n = 0;; n++) ; }"
CALLS = "#include <unistd.h>\nint main(void) { for (;;) getppid(); }"
CLOCK = 1, 0  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK
_RSP = 4  # in struct gilk_regs
_PATIENCE = 120.0  # seconds


def begun(*events: Counted) -> ProcessorSamples:
    try:
        return ProcessorSamples(list(events))
    except TargetError as error:
        assert error.slug == "cannot-sample"
        pytest.skip(str(error))


def of(samples: ProcessorSamples, pid: int, many: int) -> list[ProcessorSample]:
    """So many samples of a process."""
    found: list[ProcessorSample] = []
    until = time.monotonic() + _PATIENCE
    while len(found) < many and time.monotonic() < until:
        found += [each for each in samples.take() if each.pid == pid]
        time.sleep(0.01)
    assert len(found) >= many
    return found


@pytest.fixture
def spinning(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that spins on one processor."""
    with subprocess.Popen([compile_text(tmp_path, "spins", SPINS)]) as child:
        os.sched_setaffinity(child.pid, {min(os.sched_getaffinity(0))})
        yield child
        child.kill()


def mapped(pid: int, name: str) -> tuple[int, int]:
    """The first executable mapping of that name, or the first of any kind if it is special."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split()
        if fields[-1].endswith(name) and ("x" in fields[1] or name.startswith("[")):
            start, end = (int(each, 16) for each in fields[0].split("-"))
            return start, end
    raise AssertionError(name)


def test_a_sample_says_where_a_program_is_and_on_which_processor(spinning: subprocess.Popen[bytes]) -> None:
    samples = begun(Counted(*CLOCK, 2_000_000))
    found = [each for each in of(samples, spinning.pid, 40) if each.user]
    code, stack = mapped(spinning.pid, "/spins"), mapped(spinning.pid, "[stack]")
    samples.close()
    assert len(found) > 10
    later = found[10:]  # the first may be from before main()
    for each in later:
        assert each.cpu == min(os.sched_getaffinity(0)) and each.tid == spinning.pid and not each.kernel
        assert code[0] <= each.user < code[1] and each.registers[PC] == each.user
        assert stack[0] <= each.registers[_RSP] < stack[1]
    assert [each.time for each in found] == sorted(each.time for each in found)


def test_events_count_in_programs_or_in_the_kernel_as_asked(tmp_path: Path) -> None:
    """The program does nothing but system calls, so both see it."""
    with subprocess.Popen([compile_text(tmp_path, "calls", CALLS)]) as child:
        samples = begun(Counted(*CLOCK, 1_000_000, kernel=False), Counted(*CLOCK, 1_000_000, user=False))
        found: list[ProcessorSample] = []
        until = time.monotonic() + _PATIENCE
        while {each.which for each in found} != {0, 1} and time.monotonic() < until:
            found += of(samples, child.pid, 20)
        samples.close()
        child.kill()
    assert {each.which for each in found} == {0, 1}
    assert not [each for each in found if each.which == 0 and each.kernel]
    assert not [each for each in found if each.which == 1 and (each.user or not each.kernel >> 63)]


def test_names_of_processes_that_have_ended_are_known() -> None:
    samples = begun(Counted(*CLOCK, 10_000_000))
    child = subprocess.Popen(["true"])
    child.wait()
    samples.take()
    samples.close()
    assert samples.names[child.pid] == b"true"
    process = SampledProcess(child.pid, SharedImages(), samples.names[child.pid])
    assert (process.alive, process.status()[b"Name"], process.root()) == (False, b"true", b"<unknown>")
    with pytest.raises(TargetError):
        process.loaded()


def test_samples_that_find_no_room_are_counted(spinning: subprocess.Popen[bytes]) -> None:
    """Nobody takes the samples, until the ring is full: the kernel counts those that it drops, and tells when there is
    room again."""
    samples = begun(Counted(*CLOCK, 200_000))
    until = time.monotonic() + _PATIENCE
    while not samples.lost and time.monotonic() < until:
        time.sleep(1.0)
        samples.take()
        time.sleep(0.05)
        samples.take()
    samples.close()
    assert samples.lost > 0


class Records(ProcessorSamples):
    """Samples whose rings are written here, one for each processor: records as linux/perf_event.h lays them out."""

    def __init__(self, processors: int) -> None:
        super().__init__([])
        self._memories = [mmap.mmap(-1, RING + PAGE) for _ in range(processors)]
        for cpu, memory in enumerate(self._memories):
            ring = object.__new__(_Ring)
            ring._memory, ring._descriptor = memory, os.open(os.devnull, os.O_RDONLY)
            self._rings.append((0, cpu, ring))

    def write(self, cpu: int, time: int, kind: int, content: bytes, pid: int = 7, mode: int = 0) -> None:
        """A record other than a sample: its content, and behind it thread, time and processor (sample_id_all)."""
        self._append(cpu, kind, mode, content + struct.pack("<IIQII", pid, pid, time, cpu, 0))

    def sample(self, cpu: int, time: int, pid: int = 7) -> None:
        self._append(cpu, 9, 2, struct.pack("<QIIQIIQ", 0x1000, pid, pid, time, cpu, 0, 0))

    def name(self, cpu: int, time: int, name: bytes, executes: bool = True) -> None:
        content = struct.pack("<II", 7, 7) + name.ljust(8, b"\0")
        self.write(cpu, time, 3, content, mode=executes << 13)

    def _append(self, cpu: int, kind: int, mode: int, content: bytes) -> None:
        memory = self._memories[cpu]
        (head,) = struct.unpack_from("<Q", memory, 1024)
        record = struct.pack("<IHH", kind, mode, 8 + len(content)) + content
        memory[PAGE + head : PAGE + head + len(record)] = record
        struct.pack_into("<Q", memory, 1024, head + len(record))


def test_a_sample_has_the_name_that_its_process_had_at_that_time() -> None:
    """The process goes from one processor to the other, and the kernel writes into the ring of the present one."""
    records = Records(2)
    records.sample(0, 10)
    records.name(0, 20, b"sh")
    records.sample(0, 30)
    records.sample(1, 50)
    records.name(0, 40, b"prog")
    records.name(1, 60, b"itself", executes=False)
    records.sample(0, 70)
    records.write(1, 75, 7, struct.pack("<IIIIQ", 8, 7, 8, 7, 75))
    records.sample(0, 80, pid=8)
    found = [(each.time, each.name, each.program) for each in records.take()]
    assert found == [
        (10, b"", 0), (30, b"sh", 1), (50, b"prog", 2), (70, b"itself", 2), (80, b"itself", 0)
    ]  # fmt: skip
    records.close()


def test_a_record_from_after_the_look_waits_for_the_next() -> None:
    records = Records(1)
    soon = time.monotonic_ns() + 10**15
    records.sample(0, 10)
    records.sample(0, soon)
    assert [each.time for each in records.take()] == [10]
    assert records.take() == []
    records.close()


def test_names_are_not_trusted_when_records_were_lost() -> None:
    records = Records(1)
    records.name(0, 10, b"sh")
    records.write(0, 20, 2, struct.pack("<QQ", 1, 5))
    records.sample(0, 30)
    assert [each.name for each in records.take()] == [b""] and records.lost == 5
    records.close()


def test_it_is_counted_how_often_the_kernel_holds_samples_back() -> None:
    records = Records(2)
    for cpu, at in ((0, 10), (1, 20), (1, 40)):
        records.write(cpu, at, 5, struct.pack("<QQQ", at, 1, 1))  # PERF_RECORD_THROTTLE
        records.write(cpu, at + 5, 6, struct.pack("<QQQ", at, 1, 1))  # PERF_RECORD_UNTHROTTLE
    assert records.take() == [] and records.throttled == {0: 1, 1: 2}
    records.close()


def test_an_event_that_there_is_not_is_refused() -> None:
    begun(Counted(*CLOCK, 1_000_000)).close()
    with pytest.raises(TargetError) as caught:
        ProcessorSamples([Counted(*CLOCK, 1_000_000), Counted(999, 0, 1_000_000)])
    assert caught.value.slug == "cannot-sample"


def test_processors_are_those_of_the_system() -> None:
    assert online() == sorted(
        int(path.name[3:])
        for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*")
        if not (path / "online").exists() or (path / "online").read_text().strip() == "1"
    )
