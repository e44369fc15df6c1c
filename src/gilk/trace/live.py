# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads memory that others write at the same time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def which_are_set(words: NDArray[Any]) -> list[int]:
    """The indices of the words that are not 0. numpy counts them first, and raises RuntimeError if they have changed
    then, so it is given a copy.
    """
    found: list[int] = np.flatnonzero(words.copy()).tolist()
    return found
