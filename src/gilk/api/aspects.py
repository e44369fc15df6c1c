# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects: their files checked and explained."""

from __future__ import annotations

from gilk.engines.aspect.checked import check as check_aspects
from gilk.engines.aspect.explained import explain as explain_aspects

__all__ = ["check_aspects", "explain_aspects"]
