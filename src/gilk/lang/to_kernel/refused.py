# SPDX-License-Identifier: LGPL-2.1-or-later
"""Refusals: parts of lang/ir.py that code for the kernel has no printer for."""

from __future__ import annotations


class NotInKernel(Exception):
    """``what``: the part of D that the user wrote; ``clause``: the number of its clause, 0 where that is not known."""

    def __init__(self, what: str, clause: int = 0) -> None:
        super().__init__(what)
        self.what = what
        self.clause = clause
