# SPDX-License-Identifier: LGPL-2.1-or-later
"""A refused point is named, and is not reported as a point that was never reached."""

from __future__ import annotations

import re
from pathlib import Path

import gilk
from gilk.trace.probes import RefusedPoint
from gilk.trace.reading import read
from tests.behaviour.harness import run, run_gilk
from tests.programs.build import build

#: Two of its four blocks are within a restartable sequence, in which no point can be spliced.
FUNCTION = "rseq:rseq_increment"
REFUSED = [f"{FUNCTION}:@1:pre", f"{FUNCTION}:@2:pre"]


def test_json_names_refused_points_and_does_not_count_them() -> None:
    done = run([f"{FUNCTION}:blocks=count"], [build("rseq")])
    assert done.status == 0
    assert done.report["refused_points"] == [{"point": point, "reason": "rseq"} for point in REFUSED]
    assert done.report["points"] == {"asked": 4, "spliced": 2, "refused": 2}
    assert done.report["counts"].keys() == {f"{FUNCTION}:@0:pre", f"{FUNCTION}:@3:pre"}
    assert done.report["counts"][f"{FUNCTION}:@0:pre"] >= 2_000_000


def test_the_report_names_refused_points_and_does_not_call_them_never_reached() -> None:
    done = run_gilk("run", "-i", f"{FUNCTION}:blocks=count", "--", build("rseq"))
    assert "".join(f"  {point}: rseq\n" for point in REFUSED) in done.stderr
    counted = re.findall(rf"^ *\d+  {FUNCTION}:@\d:pre$", done.stderr, re.MULTILINE)
    never = re.search(r"^(\d+) points? never reached$", done.stderr, re.MULTILINE)  # whether one is, the kernel decides
    assert len(counted) + int(never[1] if never else 0) == 2


def test_a_session_and_its_file_name_the_same_refused_points(tmp_path: Path) -> None:
    where = tmp_path / "a.parquet"
    running = gilk.prepare_run([gilk.parse_request(f"{FUNCTION}:blocks=count")], [], [str(build("rseq"))], where)
    running.begin()
    running.wait(None, lambda: False, lambda _: None)
    session = running.sessions[0]
    assert session.refused_points() == [RefusedPoint(point, "rseq") for point in REFUSED]
    assert session.counts().keys() == {f"{FUNCTION}:@0:pre", f"{FUNCTION}:@3:pre"}
    running.finish()
    tally = read(where).tally
    assert tally.refused == dict.fromkeys(REFUSED, "rseq")
    assert not tally.counts.keys() & set(REFUSED)
    asked = run_gilk("query", where, "SELECT point FROM probes WHERE refused = 'rseq' ORDER BY point")
    assert asked.stdout.split() == ["point", *REFUSED]


def test_an_experiment_names_refused_points_for_each_instrument(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        f'[workload]\ncommand = "{build("rseq")}"\n'
        f'[[instrument]]\npoints = "{FUNCTION}:blocks"\ninstrument = "count"\nstop = "1ms"\n'
    )
    plan = gilk.load_experiment(file)
    running = gilk.prepare_experiment(plan)
    running.begin()
    running.wait(None, lambda: False, lambda _: None)
    result = running.finish()
    assert [each.point for each in result.refused_points] == REFUSED
    assert not result.counts.keys() & set(REFUSED)
    [happened] = running.happened()["instruments"]
    assert happened["refused_points"] == [{"point": point, "reason": "rseq"} for point in REFUSED]
