# SPDX-License-Identifier: LGPL-2.1-or-later
"""gilk in a notebook.

    import gilk.notebook

From then on surveys, graphs, reports and histograms are shown as tables and pictures. Live widgets, which need
`pip install 'gilk[notebook]'`, are the window's own pages: `Counters`, `LiveAggregations`, `Cfg`, `Timeline`.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from gilk.errors import GilkError
from gilk.notebook.formats import register

if TYPE_CHECKING:
    from gilk.notebook.widgets import Cfg, Counters, LiveAggregations, Timeline

__all__ = ["LiveAggregations", "Cfg", "Counters", "Timeline"]
_NEEDED = ("anywidget", "traitlets", "starlette")

register()


def __getattr__(name: str) -> Any:
    """Import a widget when it is first used: tables do without the packages for widgets. Raises GilkError
    `notebook-missing`."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    missing = [each for each in _NEEDED if importlib.util.find_spec(each) is None]
    if missing:
        raise GilkError("notebook-missing", f"widgets need {', '.join(missing)}", "pip install 'gilk[notebook]'")
    return getattr(importlib.import_module("gilk.notebook.widgets"), name)
