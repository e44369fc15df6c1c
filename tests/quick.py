# SPDX-License-Identifier: LGPL-2.1-or-later
"""The tests of `make quick`, run before each commit: together they take less than a minute, and none waits.

python -m tests.quick               prints where they are
python -m pytest -p tests.quick     runs tests, and refuses those that wait
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).resolve().parent
LANE = """
    fake spec/test_duration.py spec/test_event.py spec/test_point.py arch
    test_layers.py test_words.py test_quick.py test_digest.py
    session/test_ledger.py session/test_request.py session/test_without_entry.py
    engines/dtrace/test_names.py
    lang/test_facts.py lang/test_runtime.py lang/aspect/test_model.py lang/aspect/test_events.py
    lang/d/test_parser.py lang/d/test_lexer.py lang/d/test_meaning.py lang/d/test_passes.py lang/d/test_world.py
    lang/d/test_buckets.py lang/d/test_stability.py lang/d/test_printf_format.py
    splice/test_byte_registry.py
    render/test_trace.py render/test_histogram.py render/test_report.py render/test_text.py
    render/d/test_trace.py render/d/test_records.py render/d/test_aggregations.py render/d/test_listing.py
    render/d/test_messages.py render/d/test_hexdump.py render/d/test_stacks.py render/d/test_typed.py
    targets/test_frames.py targets/test_writer.py targets/test_places.py targets/test_maps.py
    trace/test_align.py trace/test_folding.py trace/test_traced.py trace/test_query.py trace/test_series.py
    trace/test_interrupts.py
    trace/d/test_d_sorting.py trace/d/test_d_contents.py
""".split()  # noqa: SIM905
#: The programs that a test may start: compilers, whose results are kept, and git, for the names of files.
TOOLS = {"cc", "c++", "gcc", "clang", "ld", "ld.bfd", "ld.lld", "strip", "nm", "objcopy", "git"}


def paths() -> list[Path]:
    return [ROOT / name for name in LANE]


def _refuse(*_: object, **__: object) -> NoReturn:
    raise AssertionError("a test of `make quick` sleeps")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, Any, Any]:
    """While a test runs, refuse to sleep, and to start anything but a tool."""
    start = subprocess.Popen.__init__

    def only_tools(self: Any, command: Any, *rest: Any, **options: Any) -> None:
        first = command if isinstance(command, str | bytes) else command[0]
        assert Path(str(first)).name in TOOLS, f"a test of `make quick` starts {first}"
        start(self, command, *rest, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", _refuse)
        patch.setattr(subprocess.Popen, "__init__", only_tools)
        return (yield)


if __name__ == "__main__":
    print(*paths())
