# SPDX-License-Identifier: LGPL-2.1-or-later
"""Structs and arrays of programs in a live kernel, against tests/lang/d and the kernel's own variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import ran
from tests.lang.d.programs import HERE
from tests.lang.d.test_run import beside
from tests.seldom import seldom

pytestmark = pytest.mark.xdist_group("lab")
TIMES = 20
PROGRAMS = (
    "bit_fields", "element_structs", "index_out_of_bounds", "pointers_into_variables", "struct_copies", "structs",
)  # fmt: skip


@pytest.mark.parametrize("name", seldom(PROGRAMS, 3))
def test_they_are_what_they_are_in_processes(kernel: KernelTarget, guest: Guest, name: str) -> None:
    path = HERE / "run" / f"tst.{name}.d"
    done = ran(kernel, path.read_text(), clausetime="400000")
    assert done.lines == [line for line in path.with_suffix(".out").read_text().splitlines() if line]
    assert sorted(done.errors.splitlines()) == sorted(beside(path, ".err").splitlines())
    assert not guest.complaints()


def test_each_processor_has_a_struct_that_can_be_kept(kernel: KernelTarget, calls: Path) -> None:
    """Pointers that one clause keeps tell the next one the same processor as the kernel's own variables."""
    text = """
        struct seen { int by[64]; int most; } seen;
        syscall::getpgid:entry /pid == $target/ { self->at = curcpu; seen.by[cpu & 63]++; seen.most = `nr_cpu_ids; }
        syscall::getpgid:entry /pid == $target/ {
            @[self->at->cpu_id == `cpu_number, self->at == curcpu, self->at->cpu_chip == chip,
              seen.by[cpu & 63] > 0, seen.most > cpu] = count();
            all += 1; }
        END { printa("%d %d %d %d %d %@d\\n", @); printf("%d\\n", all == seen.by[0] + seen.by[1]); }"""
    assert ran(kernel, text, [str(calls), str(TIMES)]).lines == [f"1 1 1 1 1 {TIMES}", "1"]
