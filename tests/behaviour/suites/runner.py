# SPDX-License-Identifier: LGPL-2.1-or-later
"""Run one suite, plainly, with every block instrumented, or with aspects woven in, and print the outcomes as JSON.

This is a process of its own, in a session of its own, because suites signal process groups and look for a terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from tests.behaviour.suites.cases import Outcome, run_all
from tests.behaviour.suites.catalogue import SUITES, only
from tests.behaviour.suites.zygote import Zygote, instrumented, woven


def main(way: str, name: str, directory: str, source: str, result: str, pattern: str = "") -> None:
    suite = SUITES[name]
    zygote = Zygote(suite.program, Path(directory))
    cases = only(suite.prepare(Path(source), zygote.proxy), pattern)
    outcomes: dict[str, Outcome] = {}

    def work(poll: Callable[[], object]) -> None:
        outcomes.update(run_all(cases, suite.scrubs, poll))

    report = {}
    if way == "plain":
        with zygote.plain():
            work(lambda: None)
    elif way.endswith(".aspect"):
        report = asdict(woven(zygote, Path(way), work))
    else:
        report = asdict(instrumented(zygote, suite.inserts, work))
    found = {"outcomes": {key: asdict(outcome) for key, outcome in outcomes.items()}, "report": report}
    Path(result).write_text(json.dumps(found | {"ends": zygote.ends()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
