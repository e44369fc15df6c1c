# SPDX-License-Identifier: LGPL-2.1-or-later
"""How a notebook shows gilk's values: as HTML beside the text that they have anyway."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from gilk.api.runs import RunReport
from gilk.api.scans import Graph, Survey
from gilk.api.traces import TraceReport
from gilk.render import html
from gilk.render.histogram import Histogram

HTML: Final[dict[type, Callable[[Any], str]]] = {
    Graph: html.graph, Histogram: html.histogram, RunReport: html.run_report, Survey: html.survey,
    TraceReport: html.trace_report,
}  # fmt: skip


def register() -> bool:
    """Have the notebook's IPython use these formats; returns whether there is one."""
    core: Any = sys.modules.get("IPython")
    shell = core.get_ipython() if core is not None else None
    if shell is None:
        return False
    for kind, form in HTML.items():
        shell.display_formatter.formatters["text/html"].for_type(kind, form)
        shell.display_formatter.formatters["text/plain"].for_type(kind, _plain)
    return True


def _plain(value: object, printer: Any, _cycle: bool) -> None:
    printer.text(value.render() if isinstance(value, RunReport | TraceReport) else repr(value))
