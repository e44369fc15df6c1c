# SPDX-License-Identifier: LGPL-2.1-or-later
"""Unwind tables of a process that has ended."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any

from gilk.engines.dtrace.unwinding import Unwinding
from tests.behaviour.harness import state, wait_for


def test_a_process_that_has_ended_has_no_tables() -> None:
    with subprocess.Popen(["/bin/true"]) as ended:
        assert wait_for(lambda: state(ended.pid) == "Z")
        process: Any = SimpleNamespace(pid=ended.pid)
        unwinding = Unwinding(process)
        assert unwinding.room >= 0
        assert not unwinding.follow()
