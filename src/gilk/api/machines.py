# SPDX-License-Identifier: LGPL-2.1-or-later
"""Virtual machines of the lab, and the driver in a kernel."""

from __future__ import annotations

import gilk.lab as lab
from gilk.targets.kernel import admin as driver

__all__ = ["driver", "lab"]
