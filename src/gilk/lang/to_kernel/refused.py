# SPDX-License-Identifier: LGPL-2.1-or-later
"""The exception for parts of lang/ir.py that cannot be printed for the kernel."""

from __future__ import annotations


class NotInKernel(Exception):
    """``what`` cannot be printed. ``what``: the part of D that the user wrote; ``clause``: the number of its clause, 0
    if it is not known.
    """

    def __init__(self, what: str, clause: int = 0) -> None:
        super().__init__(what)
        self.what = what
        self.clause = clause
