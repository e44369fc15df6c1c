# SPDX-License-Identifier: LGPL-2.1-or-later
"""Samples in files: reading them, and pairing entries with returns to calls."""

from __future__ import annotations

from gilk.trace.calls import pair as calls
from gilk.trace.reading import read

__all__ = ["calls", "read"]
