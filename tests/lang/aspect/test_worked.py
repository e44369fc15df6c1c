# SPDX-License-Identifier: LGPL-2.1-or-later
"""The examples of examples/aspects and of the paper, run by the model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gilk.lang.aspect import derived
from gilk.lang.aspect.automaton import Automaton
from gilk.lang.aspect.deeds import AspectTally
from gilk.lang.aspect.model import AspectModel
from tests.lang.aspect.automata import ran, sequence
from tests.lang.aspect.worked import NULL_ARGUMENT, OVERFLOW, PAPER, RACE, WORKED

EXAMPLES = Path(__file__).parents[3] / "examples" / "aspects"


def example(name: str, automaton: Automaton | None = None) -> tuple[AspectModel, list[str]]:
    """The model after the example's events, and what its advice reported, did and returned."""
    model, deeds = ran(automaton or WORKED[name], (EXAMPLES / f"{name}.events").read_text())
    said = [one.partition(" ")[2].partition(" ")[2] if one.startswith("it ") else one for one in deeds]
    return model, [one for one in said if one.startswith(("reports", "adds", "denies", "returns"))]


def tally(model: AspectModel) -> AspectTally:
    return model.counts()["it"]


def test_accounting_charges_each_client_for_its_own_reads_until_its_request_ends() -> None:
    model, said = example("accounting")
    assert said == ["adds bytes[::1] 4096", "adds bytes[::2] 512"]
    assert model.sums == {("bytes", "::1"): 4096, ("bytes", "::2"): 512}
    assert tally(model) == AspectTally((2, 2, 1), begun=2, open=1, ended=1)


def test_the_race_example_denies_the_race_and_no_plain_open() -> None:
    model, said = example("race")
    assert said == ["reports race on /a, by 20", "denies EACCES", "returns -1", "returns 3"]
    assert tally(model) == AspectTally((2, 1, 2), begun=2, ended=2)


def test_the_race_example_works_without_the_kernels_part() -> None:
    """The culprit is not known then. Negative control: without the last element's advice nothing is denied."""
    text = (EXAMPLES / "race.events").read_text()
    unseen = "\n".join(line for line in text.splitlines() if "vfs_rename" not in line)
    assert "it 1.2 reports race on /a, by 0" in ran(RACE, unseen)[1]
    silent = sequence(*RACE.elements[:2], replace(RACE.elements[2], advice=None), words=RACE.words)
    assert not any("denies" in one for one in ran(silent, text)[1])


def test_an_open_more_than_ten_seconds_later_is_no_race() -> None:
    text = (
        (EXAMPLES / "race.events").read_text().replace('"at": "3s"', '"at": "12s"').replace('"at": "4s"', '"at": "12s"')
    )
    model, deeds = ran(RACE, text)
    assert tally(model).late == 1 and not any("denies" in one for one in deeds)


def test_the_chunked_example_refuses_only_negative_sizes() -> None:
    model, said = example("chunked")
    assert said == ["reports chunk of -1 bytes refused", "returns -1", "returns 0"]
    assert tally(model).matches == (2,)


def test_the_finalized_example_refuses_a_statement_until_it_is_prepared_again() -> None:
    model, said = example("finalized")
    assert said == ["reports 0x64 used", "returns 21"]
    assert tally(model) == AspectTally((1, 1, 1), begun=1, ended=1)


def test_the_status_example_reports_a_failed_command_with_its_sourced_file() -> None:
    assert example("status")[1] == ["reports /etc/profile: status 127"]


def test_the_overflow_example_reports_and_suppresses_a_store_past_a_block() -> None:
    model, said = example("overflow")
    assert said == ["reports 8 at 96 of 100"]
    assert tally(model) == AspectTally((1, 1, 1), begun=1, ended=1)


def test_the_fix_example_adds_the_missing_check() -> None:
    assert example("fix")[1] == ["returns -19"]


def test_the_examples_are_keyed() -> None:
    keys = {name: [derived.keys(one, n) for n in range(1, len(one.elements))] for name, one in WORKED.items()}
    assert keys["accounting"] == [("who",), ("http",)] and keys["race"] == [("dev", "ino"), ("path", "tid")]
    assert keys["finalized"] == [("s",), ("s",)] and keys["overflow"] == [("end",), ("b",)]


def test_the_papers_accounting_ends_at_the_first_read_and_charges_every_instance() -> None:
    def line(**keys: object) -> str:
        return json.dumps(keys)

    def request(address: str) -> str:
        said = {"GET_PID": 10, "http->request->client_addr": address}
        return line(call="clientProcessRequest", args=[1], pid=10, values=said)

    read = line(
        call="vfs_read", args=[7, 8, 512, 0], pid=10, kernel=True,
        values={"isSocket(file)": 0, "isPipe(file)": 0, "current->pid": 10},
    )  # fmt: skip
    model, deeds = ran(PAPER, "\n".join((request("a"), request("b"), read, read)))
    assert sum("calls addClientReadDiskAccess" in one for one in deeds) == 2
    assert tally(model) == AspectTally((2, 2), begun=2, ended=2)


@pytest.mark.parametrize(("argument", "matches"), [(0, 1), (5, 0)])
def test_the_papers_example_of_a_null_argument(argument: int, matches: int) -> None:
    model, deeds = ran(NULL_ARGUMENT, f'{{"call": "foo", "args": [{argument}]}}')
    assert tally(model).matches == (matches,) and ("it 1.0 calls exit(0)" in deeds) == bool(matches)


def test_the_overflow_example_ignores_stores_before_or_far_past_the_block() -> None:
    text = (EXAMPLES / "overflow.events").read_text()
    for address in (900, 1164, 992):
        assert tally(ran(OVERFLOW, text.replace("1096", str(address)))[0]).matches == (1, 0, 1), address
