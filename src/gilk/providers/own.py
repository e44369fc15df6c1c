# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``dtrace``: probes of the tracing itself. They are always there, and always the first."""

from __future__ import annotations

from gilk.lang.d.probes import DProbe

BEGIN = DProbe(1, "dtrace", "", "", "BEGIN")
END = DProbe(2, "dtrace", "", "", "END")
ERROR = DProbe(3, "dtrace", "", "", "ERROR")
PROBES = (BEGIN, END, ERROR)
