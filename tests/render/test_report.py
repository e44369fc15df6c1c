# SPDX-License-Identifier: LGPL-2.1-or-later
"""A report tells the result of a run, in JSON that programs rely on and in words."""

from __future__ import annotations

import json

import numpy as np

from gilk.render.histogram import Histogram
from gilk.render.report import RunReport, losses, refused_by_name, top_counts
from gilk.render.trace_report import TraceReport
from gilk.trace.probes import RefusedPoint
from gilk.trace.spent import ProbeCost, Spent
from gilk.trace.traced import TraceDescription

FULL = RunReport(
    counts={"f:entry": 7, "g:entry": 0},
    records=1000,
    drops=3,
    lost=1,
    nested=2,
    corrupt=1,
    asked=10,
    spliced=8,
    refused=2,
    refused_points=(RefusedPoint("h:@1:pre", "rseq"), RefusedPoint("h:@2:pre", "rseq")),
    tactics={"jump": 7, "pun": 1},
    refusals={"rseq": 2},
    activation_ms=12.34567,
    restored=True,
    notes=("f is hot\x1b[2J",),
    latency={"f": Histogram.of(np.array([5, 9]))},
    file="a.parquet",
)


def test_json_of_a_report_has_the_documented_members() -> None:
    made = json.loads(json.dumps(FULL.to_json()))
    latency = made.pop("latency")
    assert made == {
        "counts": {"f:entry": 7, "g:entry": 0},
        "records": 1000,
        "drops": 3,
        "lost": 1,
        "nested": 2,
        "corrupt": 1,
        "points": {"asked": 10, "spliced": 8, "refused": 2},
        "refused_points": [{"point": "h:@1:pre", "reason": "rseq"}, {"point": "h:@2:pre", "reason": "rseq"}],
        "tactics": {"jump": 7, "pun": 1},
        "refusals": {"rseq": 2},
        "activation_ms": 12.346,
        "restored": True,
        "partial": False,
        "notes": ["f is hot\x1b[2J"],
        "file": "a.parquet",
        "inlined": [],
    }
    assert latency["f"]["count"] == 2
    assert latency["f"]["buckets"] == [[4, 1], [8, 1]]


def test_the_text_of_a_report_has_all_parts() -> None:
    text = FULL.render(terminal=False)
    for words in (
        "8 of 10 points instrumented in 12.3 ms\n",
        "2 refused: 2 rseq\n  h:@1:pre: rseq\n  h:@2:pre: rseq\n",
        "    7  f:entry",
        "1 point never reached",
        "f: 2 calls; least 5ns",
        "1000 records in a.parquet",
        "3 records dropped",
        "1 hit lost",
        "2 hits left out",
        "1 ring put aside",
        "note: f is hot\\x1b[2J",
    ):
        assert words in text, words
    assert "NOT" not in text and "partial" not in text


def test_tactics_are_shown_with_verbose_only() -> None:
    assert "8 of 10 points instrumented in 12.3 ms (7 by jump, 1 by pun)\n" in FULL.render(False, verbose=True)


def test_kinds_of_partial_calls_are_shown_with_verbose_only() -> None:
    calls = {"whole": 9, "left": 3, "open": 2, "before": 4, "cut": 0}
    report = TraceReport(FULL, TraceDescription(0, 10_000, "now", "exit"), 5, 0, 1.0, calls, 2)
    assert "not whole: 6 at the edges, 3 left\n" in report.render()
    assert "not whole: 3 left, 2 open, 4 before\n" in report.render(verbose=True)


def test_the_first_of_many_refused_points_are_named_and_the_others_counted() -> None:
    text = refused_by_name([RefusedPoint(f"f:@{n}:pre", "no-room") for n in range(13)])
    assert text.startswith("  f:@0:pre: no-room\n") and text.endswith("  f:@9:pre: no-room\n  and 3 more\n")


def test_the_report_warns_of_code_that_was_not_restored() -> None:
    assert "NOT what it was" in RunReport(restored=False).render(terminal=False)
    assert "NOT" not in RunReport(restored=None).render(terminal=False)
    assert "partial" in RunReport(partial=True).render(terminal=False)


def test_without_losses_there_are_no_lines_about_losses() -> None:
    assert losses(0, 0, 0, 0) == []


def test_the_highest_counts_come_first_and_the_rest_is_counted() -> None:
    text = top_counts({f"f{n}": n for n in range(30)}, terminal=False)
    assert text.splitlines()[1] == "   29  f29"
    assert text.splitlines()[-2:] == ["and 9 points with lower counts", "1 point never reached"]


def test_a_report_tells_what_the_probes_have_taken_and_of_which_that_is_not_known() -> None:
    probes = (ProbeCost("f:entry", "time", 1_000_000, 38.0), ProbeCost("g:entry", "count", 50, 2.5))
    report = RunReport(spent=Spent(probes, 1, {"count": 2.5, "time": 38.0}, 2.0))
    assert "cost of the probes: about 38ms, 1.90% of a processor (a hit: count 2.5ns, time 38.0ns)\n" in report.render()
    assert "1 point without a known cost: C, stacks, conditions, the kernel\n" in report.render()
    told = report.to_json()["cost"]
    assert (told["ns"], told["share"], told["unknown"]) == (38_000_125, 0.019, 1)
    assert "cost" not in RunReport().to_json() and "cost" not in RunReport().render()
