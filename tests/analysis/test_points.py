# SPDX-License-Identifier: LGPL-2.1-or-later
"""The points at which a function is left."""

from __future__ import annotations

import re
import subprocess

import pytest

from gilk.analysis.model import End
from gilk.splice import points
from tests.analysis.conftest import Compile, function

SOURCE = """
    __attribute__((noinline, noipa)) int waits(int n) { return n + 1; }
    __attribute__((noinline, noipa)) int takes(int n) { if (n > 5) return waits(n); return 3; }
    int main(int n, char **words) { return takes(n); }
"""
ENDS = {points.RETURNS: r"ret", points.LEAVES: r"ret|jmp +[0-9a-f]+ <waits>"}


@pytest.mark.parametrize("how", ENDS)
def test_a_call_is_over_at_returns_and_goes_on_at_tail_calls(compiled: Compile, how: frozenset[End]) -> None:
    analysis = compiled(SOURCE, "-O2")
    takes = function(analysis, "takes")
    path = str(analysis.image.path)
    listed = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    body = listed.stdout.partition("<takes>:\n")[2].partition("\n\n")[0]
    expected = [int(found[1], 16) for found in re.finditer(rf"^ +([0-9a-f]+):\t({ENDS[how]})", body, re.MULTILINE)]
    assert expected == sorted(point.address for _, point in points.returns(analysis.image, analysis, takes, how))
