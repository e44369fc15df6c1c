# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files of aspects: tst.* are accepted; err.TAG.* are refused, and their first line has the text that the error
points to."""

from __future__ import annotations

from pathlib import Path

from gilk.lang.aspect.checked import AspectCheck
from gilk.lang.aspect.meaning.order import check_aspects
from gilk.lang.syntax.source import Source

HERE = Path(__file__).parent
EXAMPLES = sorted((HERE.parents[2] / "examples" / "aspects").glob("*.aspect"))
ACCEPTED = sorted(HERE.glob("tst.*.aspect"))
REFUSED = sorted(HERE.glob("err.*.aspect"))


def checked(text: str) -> AspectCheck:
    return check_aspects(Source("test.aspect", text))
