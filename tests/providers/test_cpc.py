# SPDX-License-Identifier: LGPL-2.1-or-later
"""cpc: events that processors count. The program says itself how many page faults and how much CPU time it had
(getrusage)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gilk.lang.d.probes import described
from gilk.providers import cpc
from gilk.targets.processor_samples import Counted, can_count
from tests.programs.build import compile_text

Dtrace = Callable[..., subprocess.CompletedProcess[str]]
#: The program touches many pages, then computes for a while, and prints its page faults and its CPU time in ms.
_PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
int main(void)
{
	struct rusage used;
	size_t size = 4096UL * 20000;
	char *pages = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(pages, size, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < size; at += 4096) pages[at] = 1;
	for (volatile unsigned long n = 0; n < 300000000; n++) ;
	getrusage(RUSAGE_SELF, &used);
	long seconds = used.ru_utime.tv_sec + used.ru_stime.tv_sec, us = used.ru_utime.tv_usec + used.ru_stime.tv_usec;
	printf("had %ld %ld\n", used.ru_minflt, seconds * 1000 + us / 1000);
}
"""
pytestmark = pytest.mark.skipif(not can_count(Counted(1, 0, 1_000_000)), reason="processors cannot be sampled")


@pytest.fixture
def dtrace(gilk_on_path: dict[str, str], tmp_path: Path) -> Dtrace:
    def run(*words: object) -> subprocess.CompletedProcess[str]:
        command = ["gilk", "dtrace", "-q", *map(str, words)]
        return subprocess.run(command, cwd=tmp_path, env=gilk_on_path, capture_output=True, text=True, timeout=300)

    return run


def test_as_many_events_are_counted_as_the_program_had(dtrace: Dtrace, tmp_path: Path) -> None:
    """Each firing stands for a hundred events. Another process may have had some of these on that processor, and have
    had the hundredth of others: chance decides, so the sum of 200 firings is off by a tenth on the busiest machine.
    Faults are counted from the start of the process by getrusage, and from main() by
    cpc. A processor that its host takes away has no timer
    interrupts meanwhile: samples of time can be missing at any moment, but none is there for time that was not
    spent."""
    script = """
        cpc:::page_faults-all-100 { @faults = sum(100); } cpc:::cpu_clock-user-2000000 { @ms = sum(2); }
        cpc:::cpu_clock-user-2000000 { @wrong["wrong"] = sum(pid != $target || arg0 || !arg1 || uregs[R_RIP] != arg1); }
        END { printa("faults %@d\\n", @faults); printa("ms %@d\\n", @ms); printa("%s %@d\\n", @wrong); }"""
    done = dtrace("-n", script, "-c", compile_text(tmp_path, "counts", _PROGRAM))
    assert done.returncode == 0, done
    had, faults, spent = (re.findall(rf"{name} (\d+)", done.stdout) for name in ("had", "faults", "ms"))
    (whole,) = re.findall(r"had \d+ (\d+)", done.stdout)
    assert abs(int(faults[0]) - int(had[0])) <= int(had[0]) // 4
    assert 0 < int(spent[0]) <= int(whole)
    assert "wrong 0" in done.stdout


def test_without_a_process_the_events_of_all_are_counted(dtrace: Dtrace, tmp_path: Path) -> None:
    program = compile_text(tmp_path, "counts", _PROGRAM)
    script = f"""
        cpc:::page_faults-user-100 {{ @[execname] = sum(100); }}
        tick-100ms /!started/ {{ started = 1; system("{program}"); }}
        tick-1s /started && n++ > 1/ {{ exit(0); }}"""
    done = dtrace("-w", "-n", script)
    found = dict(re.findall(r"^ +(\S+) +(\d+)$", done.stdout, re.M))
    (had,) = re.findall(r"had (\d+)", done.stdout)
    assert abs(int(found["counts"]) - int(had)) <= int(had) // 4


def test_names_are_those_of_the_kernels_header() -> None:
    """The header is the oracle for numbers: an enumeration from 0 on."""
    header = Path("/usr/include/linux/perf_event.h").read_text()
    for kind, row in re.findall(r"PERF_COUNT_(HW|SW)_(\w+)\s*=\s*\d+,", header):
        known = cpc._events().get(f"perf_count_{kind.lower()}_{row.lower()}")
        numbers = re.findall(rf"PERF_COUNT_{kind}_{row}\s*=\s*(\d+),", header)
        assert known is None or known == (("HW", "SW").index(kind), int(numbers[0])), row


def test_an_event_of_the_processor_has_the_number_that_perf_gives_it() -> None:
    """The type is that of the kernel's header."""
    header = Path("/usr/include/linux/perf_event.h").read_text()
    (raw,) = re.findall(r"PERF_TYPE_RAW\s*=\s*(\d+),", header)
    found = cpc.counted(described("cpc:::r01c2-kernel-5000"), lambda event: True)
    assert found is not None and found.counted == Counted(int(raw), 0x1C2, 5000, user=False)
    assert cpc.counted(described("cpc:::r01c2-kernel-5000"), lambda event: False) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("cpu_clock-all", "a name is EVENT-MODE-COUNT"),
        ("cpu_clock-all-0", "a name is EVENT-MODE-COUNT"),
        ("cpu_clock-both-100000", "a name is EVENT-MODE-COUNT"),
        ("nothing-all-100000", "there is no such event"),
        ("rxyz-all-100000", "there is no such event"),
        ("r00000000000000000-all-100000", "there is no such event"),
    ],
)
def test_a_name_that_means_no_event_is_refused(dtrace: Dtrace, name: str, why: str) -> None:
    done = dtrace("-n", f"cpc:::{name}")
    assert done.returncode == 1 and why in done.stderr
    assert cpc.counted(described(f"cpc:::{name}"), can_count) is None


def test_events_are_listed(dtrace: Dtrace) -> None:
    done = dtrace("-l", "-P", "cpc")
    assert re.search(r"^ *\d+ +cpc +perf_count_sw_cpu_clock-all-1000000000$", done.stdout, re.M), done
