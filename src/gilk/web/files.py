# SPDX-License-Identifier: LGPL-2.1-or-later
"""Digests and names of the files that pages are about."""

from __future__ import annotations

import hashlib
import re


def digest_of(text: str | None) -> str:
    """A digest that distinguishes the texts of a file; '' for a file that does not exist."""
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()[:32]


def plain(title: str) -> str:
    """A word as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", title).strip("-.")[:60] or "trace"
