# SPDX-License-Identifier: LGPL-2.1-or-later
"""Scans: functions, blocks and points of programs and kernels."""

from __future__ import annotations

from gilk.engines.scan.graph import cfg
from gilk.engines.scan.scanning import scan, sources
from gilk.splice.figures import Survey
from gilk.splice.graph import Graph

__all__ = ["Graph", "Survey", "cfg", "scan", "sources"]
