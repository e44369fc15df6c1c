# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that run: their output and their errors. Next to ``tst.NAME.d``, ``.out`` has its expected output.

Other files exist where needed: ``.err`` for errors, ``.args`` for arguments, ``.status`` for that of exit().
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lang.d.programs import HERE
from tests.lang.d.sessions import run

PROGRAMS = sorted(HERE.glob("run/tst.*.d"))
#: One or two of each part of the language, and of its run time, in every run.
EACH_RUN = {
    "addresses", "aggregation_at_end", "aggregation_keys", "alloca_stores", "anonymous_members", "arguments",
    "arrays", "associative_deletes", "associative_keys", "bit_fields", "builtins", "casts", "clause_local",
    "conditional_statements", "count", "deeds_without_process", "default_action", "end", "enumerations",
    "error_probe", "exit_status", "faults", "few_variables", "floats", "freopen_back", "globals", "if_else",
    "inlines", "integer_constants", "lquantize", "memory_faults", "network", "normalize", "operators", "order",
    "pointers", "pragmas", "predicates", "printa_formats", "printf", "quantize", "setopt", "sort_options",
    "speculation_commit", "speculation_two", "string_compare", "string_strtok", "string_substr", "struct_copies",
    "structs", "summing", "system", "thread_local", "tick", "trace_quiet", "tracemem", "translators", "trunc",
    "typedefs",
}  # fmt: skip


def beside(path: Path, suffix: str) -> str:
    found = path.with_suffix(suffix)
    return found.read_text() if found.exists() else ""


def name(path: Path) -> str:
    return path.name[4:-2]


def test_programs_of_each_run_exist() -> None:
    assert {name(path) for path in PROGRAMS} > EACH_RUN


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if name(path) in EACH_RUN else pytest.mark.stress) for path in PROGRAMS],
    ids=name,
)
def test_a_program_prints_its_expected_output_and_errors(path: Path) -> None:
    assert path.read_text().startswith("/* ")
    ran = run(path)
    assert ran.output.decode() == path.with_suffix(".out").read_text()
    assert ran.errors == beside(path, ".err")
    assert ran.status == int(beside(path, ".status") or 0)
