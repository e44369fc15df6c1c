# SPDX-License-Identifier: LGPL-2.1-or-later
"""Digests, sizes and names of the files that pages are about."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from gilk.errors import UsageError

MOST_EXPERIMENT: Final = 64 << 10  # the most bytes of an experiment


def digest_of(text: str | None) -> str:
    """A digest that distinguishes the texts of a file; '' for a file that does not exist."""
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()[:32]


def check_unchanged(text: str | None, digest: str) -> None:
    """Check that the text of a file is the one that the browser knows. Raises UsageError `file-changed`."""
    if digest_of(text) != digest:
        raise UsageError("file-changed", "another has changed the file meanwhile", "load the page again")


def plain(title: str) -> str:
    """A word as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", title).strip("-.")[:60] or "trace"
