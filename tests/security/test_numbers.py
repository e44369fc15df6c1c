# SPDX-License-Identifier: LGPL-2.1-or-later
"""Everything that is read of a target, above all its registers, is data: wherever it points, keeper and client go
on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import gilk
from gilk.targets.keeper import Keeper
from gilk.targets.linux import LinuxProcess
from gilk.targets.running import PC
from tests.behaviour.harness import leftovers, wait_for
from tests.security.partner import Partner, built, open_place
from tests.seldom import seldom

_RSP = 4  # in struct gilk_regs, native/include/gilk.h
#: Stack pointers: the end of memory; a page that the kernel maps for every process, beyond its end; addresses of
#: nothing.
NOWHERE = [(1 << 64) - 8, 0xFFFFFFFFFF600800, 1 << 63, 8]
UNMAPPED = 0x10  # a GS base, as far as a process may choose it


@pytest.fixture(scope="module")
def nowhere() -> Iterator[Path]:
    with open_place() as place:
        yield built(place, "nowhere")


@pytest.mark.parametrize("rsp", NOWHERE)
def test_a_thread_with_an_unmapped_stack_is_sampled(nowhere: Path, rsp: int) -> None:
    with Partner(nowhere, str(rsp), str(UNMAPPED)) as partner:
        keeper = Keeper(LinuxProcess(partner.pid))
        end = time.monotonic() + 60
        found = []
        while not found and time.monotonic() < end:
            found = [each for each in keeper.sample(4096) if each.registers[_RSP] == rsp]
        assert found and found[0].registers[PC]
        assert not any(found[0].stack)
        keeper.memory.close()


@pytest.mark.parametrize("rsp", seldom(NOWHERE, 2))
def test_a_session_works_beside_a_thread_with_an_unmapped_stack(nowhere: Path, rsp: int) -> None:
    with Partner(nowhere, str(rsp), "0") as partner:
        with gilk.attach(partner.pid) as target, target.session() as session:
            session.insert("nowhere:work:entry", "count")
            assert wait_for(lambda: session.counts()["nowhere:work:entry"] > 0)
        assert session.restored
        assert leftovers(partner.pid) == []
    assert partner.process.returncode == 0
