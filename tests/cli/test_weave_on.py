# SPDX-License-Identifier: LGPL-2.1-or-later
"""gilk weave --on MACHINE: aspects in the kernel of a virtual machine, and a command there."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.seldom import seldom

pytestmark = pytest.mark.xdist_group("lab")
GETSID = "K: call(long __x64_sys_getsid(const struct pt_regs *regs))"
BOTH = f"group A; seq(A: call(void f(long a)); {GETSID} && if (a));"
LIMIT = 280.0  # seconds
#: Makes the calls, then waits as long as gilk takes.
SCRIPT = """
import os
for _ in range(70): os.getsid(0)
print('done', flush=True)
os.read(os.pipe()[0], 1)
"""


@pytest.mark.stress
def test_ctrl_c_ends_a_weaving_in_the_lab_with_exact_counts(gilk_on_path: dict[str, str], tmp_path: Path) -> None:
    """Calls that only one command makes are counted exactly, each in JSON; then everything is taken out."""
    path = tmp_path / "k.aspect"
    path.write_text(f'{GETSID} && return(r) && if (r > 0) then after {{ report("%ld of %d", r, pid()); }};')
    words = ["gilk", "weave", path, "--on", "lab", "--json", "--", "python3", "-ISc", SCRIPT]
    with subprocess.Popen(words, env=gilk_on_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while len([line for line in lines if "report" in line]) < 70 or "done\n" not in lines:
            lines.append(process.stdout.readline())
            assert lines[-1], lines
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=LIMIT)[0].splitlines()
    found = [json.loads(line) for line in (*lines, *rest) if line.startswith("{")]
    assert found[0] == {"woven": {"kernel": 1}}
    reports = [one["report"] for one in found[1:-1]]
    assert len(reports) == 70
    assert {(one["aspect"], one["line"], one["pid"] == one["tid"]) for one in reports} == {("#1", 1, True)}
    assert {one["text"].split(" of ")[1] for one in reports} == {str(reports[0]["pid"])}
    end = found[-1]
    assert (end["processes"][0]["pid"], end["processes"][0]["restored"]) == (0, True)
    assert end["aspects"][0]["matches"] == [70]


@pytest.mark.parametrize(
    ("text", "words", "slug"),
    seldom(
        [
            (f"{GETSID};", ["--on", "moon"], "bad-machine"),
            (f"{GETSID};", ["--on", "lab", "-p", "1"], "remote-kernel-only"),
            ("call(int f(int a));", ["--on", "lab"], "remote-kernel-only"),
            (f"{GETSID};", ["--on", "lab", "-d"], "usage"),
            (f"{GETSID};", ["--on", "lab", "--persist"], "usage"),
            (f"{GETSID} then {{ schedule(); }};", ["--on", "lab"], "cannot-weave"),
            (f"{GETSID} then inplace {{ return 0; }};", ["--on", "lab"], "cannot-weave"),
            ("K: readGlobal(int jiffies);", ["--on", "lab"], "cannot-weave"),
            (BOTH, ["--on", "lab", "-o", "told", "-c", "true"], "usage"),
            (BOTH, ["--on", "ssh:nowhere", "-c", "true"], "remote-kernel-only"),
            (BOTH, ["--on", "lab"], "remote-kernel-only"),
        ],
        6,
    ),
)
def test_impossible_weavings_are_refused_without_booting_a_machine(
    gilk_on_path: dict[str, str], tmp_path: Path, text: str, words: list[str], slug: str
) -> None:
    """No machine is booted for it."""
    path = tmp_path / "k.aspect"
    path.write_text(text)
    done = subprocess.run(
        ["gilk", "weave", path, *words], env=gilk_on_path, capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 2
    assert f"({slug})" in done.stderr
