# SPDX-License-Identifier: LGPL-2.1-or-later
"""Digests of the files that pages are about."""

from __future__ import annotations

import hashlib


def digest_of(text: str | None) -> str:
    """A digest that distinguishes the texts of a file; '' for a file that does not exist."""
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()[:32]
