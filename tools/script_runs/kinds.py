# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kinds of reasons why scripts do not run."""

from __future__ import annotations

import re


def kind_of(why: str, kinds: dict[str, str]) -> str:
    """The kind of a message: that of the first pattern that it has; the message itself if it has none."""
    return next((kind for pattern, kind in kinds.items() if re.search(pattern, why)), why)
