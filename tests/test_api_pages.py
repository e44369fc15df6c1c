# SPDX-License-Identifier: LGPL-2.1-or-later
"""The pages of the Python API are right: their code runs and prints what they say, and each name is there with its
types.

A block that opens with ```python test is run; all blocks of a page make one program. A block ```text output after it is
its expected output, in which `...` stands for anything.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import gilk
from tests.test_docs import matches

ROOT = Path(__file__).parent.parent
GUIDE, REFERENCE = ROOT / "docs" / "api.md", ROOT / "docs" / "api-reference.md"
BLOCK = re.compile(r"^```python test\n(.*?)^```\n(?:^```text output\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
MARK = "<end of block>"


def test_code_of_the_guide_prints_the_shown_output(tmp_path: Path, gilk_on_path: dict[str, str]) -> None:
    blocks = BLOCK.findall(GUIDE.read_text())
    assert len(blocks) > 5
    program = tmp_path / "page.py"
    program.write_text("".join(f"{code}\nprint({MARK!r}, flush=True)\n" for code, _ in blocks))
    done = subprocess.run(
        [sys.executable, program], cwd=tmp_path, env=gilk_on_path, capture_output=True, text=True, timeout=240
    )
    assert (done.returncode, done.stderr) == (0, "")
    printed = done.stdout.split(f"{MARK}\n")
    for (code, expected), actual in zip(blocks, printed, strict=False):
        assert matches(expected, actual), f"{code}\n{actual}"


def test_the_reference_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "api_reference.py", "--check"], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_reference_has_each_public_name() -> None:
    heads = set(re.findall(r"^### gilk\.(\w+)$", REFERENCE.read_text(), re.MULTILINE))
    assert heads == {name for name in gilk.__all__ if not name.startswith("_")}
