# SPDX-License-Identifier: LGPL-2.1-or-later
"""C instruments that are being written."""

from __future__ import annotations

from gilk.engines.scan.c_text import CProblem, WrittenC, check_c, functions_of, no_function

__all__ = ["CProblem", "WrittenC", "check_c", "functions_of", "no_function"]
