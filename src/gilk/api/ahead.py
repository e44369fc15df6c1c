# SPDX-License-Identifier: LGPL-2.1-or-later
"""The work that a command begins before all that it needs is imported."""

from __future__ import annotations

from gilk.session.ahead import expect

__all__ = ["expect"]
