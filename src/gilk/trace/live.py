# SPDX-License-Identifier: LGPL-2.1-or-later
"""Looking at memory that others write meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def which_are_set(words: NDArray[Any]) -> list[int]:
    """Indexes of those that are not 0. numpy looks twice, and gives up (RuntimeError) if they are others then, so it is
    given what they are now."""
    found: list[int] = np.flatnonzero(words.copy()).tolist()
    return found
