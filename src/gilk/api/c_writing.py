# SPDX-License-Identifier: LGPL-2.1-or-later
"""C instruments that are being written."""

from __future__ import annotations

from gilk.toolchain.checking import CheckedC, CProblem, check_c

__all__ = ["CProblem", "CheckedC", "check_c"]
