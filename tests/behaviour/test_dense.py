# SPDX-License-Identifier: LGPL-2.1-or-later
"""A program without a byte to spare is followed completely, whichever of its functions are followed at a time."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import gilk
from gilk.engines.follow.follower import Follower
from gilk.engines.follow.scope import TraceScope
from gilk.trace.reading import read
from tests.behaviour.harness import Loop, differences, plain, run_gilk, wait_for
from tests.programs.build import build
from tests.seldom import seldom

VARIANTS = ("O0", "O1", "Os")
#: Functions without room: too short for a jump, they would share its bytes with the next one, so that it leads into the
#: program itself.
NOT_HAD = {"O0": set[str](), "O1": {"value_or", "three_times", "passed"}, "Os": {"value_or", "is_small"}}


@pytest.mark.stress
@pytest.mark.parametrize("variant", seldom(("Os", "O0", "O1"), 1))
def test_any_selection_of_functions_of_a_dense_program_can_be_followed(variant: str) -> None:
    """The functions come and go while the program runs and checks itself."""
    rng = random.Random(1)
    with Loop([build("dense", variant)]) as loop:
        with gilk.attach(loop.pid) as target, Follower(target.process) as follower:
            functions, trouble = follower.prepare(target.images, TraceScope.parse(["dense:"]))
            assert not trouble
            planned = [made for made in follower._made if not made.number]
            for _ in range(5):
                follower.follow(rng.sample(functions, rng.randrange(1, len(functions))))
                follower.leave(rng.sample(functions, rng.randrange(1, len(functions))))
            follower.follow(functions)
            assert wait_for(lambda: follower.poll().num_rows > 10)
            follower.leave()
        assert variant == "O0" or (planned and len(planned[0].names) >= 5), "none was planned in company"
        assert follower.restored is True
        assert not differences(loop.pid)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_call_of_a_dense_program_and_its_return_is_traced(tmp_path: Path, variant: str) -> None:
    """The upper bytes of some jumps are those of the next instruction. Whether such a jump leads to a free page
    depends on the program's address, so a function (one run in ten, for the worst of them) may lack room in one run:
    none lacks it in eight."""
    program, file = build("dense", variant), tmp_path / "t.parquet"
    lacking = refused_in_one_trace(program, file)
    for _ in range(7):
        if lacking <= NOT_HAD[variant]:
            break
        lacking &= refused_in_one_trace(program, file)
    assert lacking <= NOT_HAD[variant]
    flow = read(file).flow.table.select(["function", "state"]).to_pylist()
    counts = {name: sum(row["function"] == name for row in flow) for name in ("three", "zero", "most", "size_of")}
    assert counts == {"three": 50, "zero": 50, "most": 50, "size_of": 50}


def refused_in_one_trace(program: Path, file: Path) -> set[str]:
    """Trace all of ``program`` to ``file``; return the functions whose entry or return had no room."""
    done = run_gilk("trace", "--json", "--all", "-o", file, "--scope", "dense:", "--", program, "50")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(plain([program, "50"]).stdout.decode())
    trace = json.loads(done.stdout.splitlines()[-1])["trace"]
    refused = trace["unfollowed"] + trace["unended"]
    assert {each["reason"] for each in refused} <= {"no-room"}
    return {each["function"] for each in refused}


@pytest.mark.parametrize("function", ["value_or", "three_times", "passed"])
def test_following_one_function_whose_return_has_no_room_is_refused(tmp_path: Path, function: str) -> None:
    """The last of all requested points is refused."""
    program, file = build("dense", "O1"), tmp_path / "t.parquet"
    done = run_gilk("trace", "--json", "-o", file, "--scope", f"dense:{function}", "--", program, "50")
    assert done.returncode == 0, done.stdout
    trace = json.loads(done.stdout.splitlines()[-1])["trace"]
    assert trace["calls"] >= 50
    assert trace["unended"] in ([], [{"function": function, "image": "dense", "reason": "no-room"}])


def test_a_function_whose_first_bytes_another_function_shares_can_be_watched(tmp_path: Path) -> None:
    """The watched function is planned anew, together with the other one."""
    program, file = build("dense", "O1"), tmp_path / "t.parquet"
    for function in ("kind_of", "zero"):
        done = run_gilk(
            "trace", "--json", "-o", file, "--scope", "dense:", "--start", f"call:{function}:3", "--", program, "9"
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1])["trace"]["calls"] > 20
