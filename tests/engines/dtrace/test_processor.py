# SPDX-License-Identifier: LGPL-2.1-or-later
"""The option cpu: clauses that gilk itself fires run on that processor, and the thread goes back afterwards."""

from __future__ import annotations

import os

import pytest

from gilk.engines.dtrace.processor import Processor
from gilk.errors import UsageError


def test_the_thread_runs_on_the_chosen_processor_and_goes_back() -> None:
    before = os.sched_getaffinity(0)
    last = max(before)
    there = Processor(str(last))
    there.enter()
    assert os.sched_getaffinity(0) == {last} and there.number == last
    there.leave()
    assert os.sched_getaffinity(0) == before


def test_without_the_option_the_processor_affinity_stays() -> None:
    before = os.sched_getaffinity(0)
    anywhere = Processor("")
    anywhere.enter()
    assert os.sched_getaffinity(0) == before and anywhere.number == 0
    anywhere.leave()


@pytest.mark.parametrize("number", ["1000000", "99999999999999999999"])
def test_an_unknown_processor_is_refused(number: str) -> None:
    before = os.sched_getaffinity(0)
    with pytest.raises(UsageError) as caught:
        Processor(number).enter()
    assert caught.value.slug == "bad-d-option" and os.sched_getaffinity(0) == before
