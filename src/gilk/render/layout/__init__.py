# SPDX-License-Identifier: LGPL-2.1-or-later
"""The places of a control-flow graph's blocks and edges in a picture: boxes in rows, and edges that never run behind
one.

Rows are the lengths of the longest ways from the entry (rows.py), columns come from a tree that lies close together
(columns.py), edges go through the gaps between rows and the channels between columns (routes.py), and only then it is
known how wide these have to be (drawing.py). The same graph always gives the same picture.
"""

from gilk.render.layout.drawing import draw
from gilk.render.layout.model import Arc, Box, Drawing, Route

__all__ = ["Box", "Drawing", "Arc", "Route", "draw"]
