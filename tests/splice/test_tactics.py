# SPDX-License-Identifier: LGPL-2.1-or-later
"""The table of tactics, and one more tactic, for which only a row of the table has to be added."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gilk.splice.policy import KERNEL, PROCESS
from gilk.splice.tactics.table import NAMES, ROWS, TACTICS, rounds
from gilk.splice.tactics.tactic import Effort
from tests.places import ROOT

PACKAGE = ROOT / "src" / "gilk"
TABLE = Path("splice", "tactics", "table.py")

# A jump of six bytes, into functions of one block only.
NEW = """
from gilk.arch.asm import JMP32
from gilk.splice.puns import IDLE_PREFIX
from gilk.splice.tactics.tactic import Lead, Tactic


class Prefixed(Tactic):
    name, number = "prefixed", 7

    def allowed(self, policy, effort):
        return policy.idle_prefixes

    def propose(self, choices, segment, first, last, effort):
        if len(choices.layout.function.blocks) != 1 or segment.heads[first] + 6 > segment.room:
            return None
        return choices.window(segment, self, first, last, 6)

    def lead(self, choice, patch, ground):
        return Lead(ground.site(choice.start, IDLE_PREFIX + ground.relative(JMP32, choice.start + 1, patch)))


PREFIXED = Prefixed()
"""
ROW = "    Row(Round.FREEING, PREFIXED, Effort.CHEAP),\n"

USE = """
from collections import Counter

from gilk.render.survey import to_json
from gilk.engines.scan.scanning import scan
from gilk.splice.instrument import Count
from gilk.splice.plan import Want
from gilk.splice.planner import plan
from gilk.splice.policy import PORTABLE
from gilk.splice.template_build import build_template, timings
from gilk.targets.image import pretend_loaded
from tests.splice.holds import analysed, violations

BASH = "/bin/bash"
analysis = analysed(BASH)
functions = [function for function in analysis.functions() if function.blocks][:600]
wanted = [(f, [Want(b.start, False, Count(b.index), b.index) for b in f.blocks]) for f in reversed(functions)]
ground = pretend_loaded(analysis)
made = plan(ground, wanted).functions
assert violations(BASH, ground, [(wants, p) for (_, wants), p in zip(wanted, made, strict=True)]) == []
counts = Counter(name for each in made for name in each.tactics.values())
single = {f.name for f in functions if len(f.blocks) == 1}
assert counts["prefixed"] > 20 and counts["jump"] > 1000, counts
splices = [(each.name, splice) for each in made for splice in each.splices if splice.tactic == "prefixed"]
assert all(name in single and splice.window.new.startswith(b"\\x2e\\xe9") for name, splice in splices)

ground = pretend_loaded(analysis)
ground.policy, ground.keeps_code = PORTABLE, True
kept = build_template(ground, list(timings(analysis))[:600])
assert kept.outcomes(kept.row_outcome >= 0)[0]["prefixed"] > 5

assert to_json(scan(BASH, "r*"), False)["points"]["pre"]["prefixed"] > 5
"""


def test_names_of_tactics_have_the_numbers_in_stored_plans() -> None:
    assert NAMES == ("jump", "call", "bounce", "pun", "copy", "fentry", "trap")
    assert [tactic.number for tactic in TACTICS.values()] == list(range(len(NAMES)))


def test_rows_are_in_the_order_of_their_rounds() -> None:
    assert [row.round for row in ROWS] == sorted(row.round for row in ROWS)


def test_each_target_has_only_tactics_that_it_supports() -> None:
    process, kernel = ([row for rows in rounds(policy) for row in rows] for policy in (PROCESS, KERNEL))
    assert {row.tactic.name for row in process} == {"jump", "call", "bounce", "pun", "copy"}
    assert {row.tactic.name for row in kernel} == {"jump", "call", "bounce", "copy", "trap"}
    assert {Effort.SHARE, Effort.MOVE_CALLS} <= {row.effort for row in process}
    assert not {Effort.SHARE, Effort.MOVE_CALLS} & {row.effort for row in kernel}


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A package that has all files of gilk's but a table with one row more, and the file that the row names."""
    mirror(PACKAGE, tmp_path / "gilk", TABLE)
    text = (PACKAGE / TABLE).read_text()
    before = "from gilk.splice.tactics.pun import PUN\n"
    assert text.count(before) == text.count("ROWS: Final = (\n") == 1
    text = text.replace(before, "from gilk.splice.tactics.prefixed import PREFIXED\n" + before)
    (tmp_path / "gilk" / TABLE).write_text(text.replace("ROWS: Final = (\n", "ROWS: Final = (\n" + ROW))
    (tmp_path / "gilk" / TABLE.with_name("prefixed.py")).write_text(NEW)
    return tmp_path


def mirror(source: Path, there: Path, without: Path) -> None:
    """Links to everything in ``source`` but the file ``without``, in folders where it is below them."""
    there.mkdir()
    for entry in source.iterdir():
        if entry.name != without.parts[0]:
            (there / entry.name).symlink_to(entry)
        elif len(without.parts) > 1:
            mirror(entry, there / entry.name, Path(*without.parts[1:]))


@pytest.mark.stress
def test_a_new_tactic_takes_one_file_and_one_row(changed: Path) -> None:
    """It is planned with, its plans hold, kept plans have it, and a scan counts it."""
    own = {path.name for path in changed.rglob("*.py") if not path.is_symlink()}
    assert own == {"table.py", "prefixed.py"}
    where = f"{changed}{os.pathsep}{ROOT}"
    environment = {**os.environ, "PYTHONPATH": where, "GILK_CACHE": str(changed / "cache")}
    run = subprocess.run([sys.executable, "-c", USE], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
