# SPDX-License-Identifier: LGPL-2.1-or-later
"""Scans: functions, blocks and points of programs and kernels."""

from __future__ import annotations

from gilk.engines.scan.graph import cfg
from gilk.engines.scan.lines import LinePoint, line_points
from gilk.engines.scan.preview import PlannedPoint, preview
from gilk.engines.scan.scanning import scan, sources, without_code
from gilk.engines.scan.symbols import FunctionSymbol, TargetImage, images, surveyed, symbols
from gilk.splice.figures import Survey, SurveyTable
from gilk.splice.graph import Graph

__all__ = [
    "FunctionSymbol", "Graph", "LinePoint", "PlannedPoint", "Survey", "SurveyTable", "TargetImage", "cfg", "images",
    "line_points", "preview", "scan", "sources", "surveyed", "symbols", "without_code",
]  # fmt: skip
