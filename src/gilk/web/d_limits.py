# SPDX-License-Identifier: LGPL-2.1-or-later
"""The error of questions about D programs that take too long, for the server, which does not compile such programs."""

from __future__ import annotations

from typing import Final

from gilk.errors import UsageError

TOO_SLOW: Final = UsageError(
    "d-too-slow", "that was given up, for it took too long",
    "Begin takes as long as it needs; a description that matches fewer probes is quicker",
)  # fmt: skip
