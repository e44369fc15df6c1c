# SPDX-License-Identifier: LGPL-2.1-or-later
"""Mark cases of which there are many of a kind: some run always, all of them under `make stress`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def seldom(cases: Iterable[Any], most: int) -> list[Any]:
    """The cases for parametrize: the first ``most`` as they are, the others marked for `make stress`. A tuple is a
    row of values."""
    rows = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*row, marks=pytest.mark.stress if n >= most else ()) for n, row in enumerate(rows)]
