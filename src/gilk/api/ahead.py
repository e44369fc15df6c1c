# SPDX-License-Identifier: LGPL-2.1-or-later
"""The start of slow work that a command will wait for, before all that the command needs is imported."""

from __future__ import annotations

from gilk.session.ahead import expect

__all__ = ["expect"]
