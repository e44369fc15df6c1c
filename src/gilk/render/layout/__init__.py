# SPDX-License-Identifier: LGPL-2.1-or-later
"""Places the blocks and edges of a control-flow graph in a picture: boxes in rows, and edges that never run behind a
box.

Rows are the lengths of the longest ways from the entry (rows.py), columns come from a tree that is laid out compactly
(columns.py), edges go through the gaps between rows and the channels between columns (routes.py), and only then are the
widths of gaps and channels known (drawing.py). The same graph always gives the same picture.
"""

from gilk.render.layout.drawing import draw
from gilk.render.layout.model import Arc, Box, Drawing, Route

__all__ = ["Box", "Drawing", "Arc", "Route", "draw"]
