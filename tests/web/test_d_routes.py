# SPDX-License-Identifier: LGPL-2.1-or-later
"""Each question about a D program that is being written has a time limit."""

from __future__ import annotations

import asyncio

import pytest

from gilk.api.running import look_at
from gilk.web import d_routes
from gilk.web.children import Children, ToldError
from gilk.web.grants import Grants, identity_of
from gilk.web.machine import WindowMachine
from gilk.web.reach import ReachQuestions
from gilk.web.starting import OwnStarting
from tests.behaviour.harness import Loop
from tests.programs.build import build
from tests.web.served import PATIENCE


def test_checking_a_program_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its worker is killed, whatever it is doing, and the next text gets a new one."""
    with Loop([build("work")]) as loop:
        asyncio.run(_asking(loop.pid, monkeypatch))


async def _asking(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = look_at(pid)
    assert seen is not None
    monkeypatch.setitem(d_routes._WITHIN, "check", PATIENCE)
    grants = Grants(pids=frozenset((pid,)))
    children = Children(OwnStarting(grants))
    reach = ReachQuestions(children)
    pages = d_routes.DPages(grants, children, reach, WindowMachine("", children))
    target = await reach.target(identity_of(seen))
    assert (await pages._answer(target, "check", text="BEGIN { }"))["probes"] == 1
    worker = pages._workers._workers["type"]
    monkeypatch.setitem(d_routes._WITHIN, "check", 0.01)
    with pytest.raises(ToldError) as error:
        await pages._answer(target, "check", text="pid$target:::return,\n" * 50 + "BEGIN { }")
    assert error.value.slug == "d-too-slow"
    assert await asyncio.wait_for(worker.process.wait(), PATIENCE) < 0
    monkeypatch.setitem(d_routes._WITHIN, "check", PATIENCE)
    assert (await pages._answer(target, "check", text="BEGIN { }"))["probes"] == 1
    pages.stop()
    reach.stop()
