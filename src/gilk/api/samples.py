# SPDX-License-Identifier: LGPL-2.1-or-later
"""Samples that were kept: read from a file, and paired to calls."""

from __future__ import annotations

from gilk.trace.calls import pair as calls
from gilk.trace.reading import read

__all__ = ["calls", "read"]
