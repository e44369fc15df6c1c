# SPDX-License-Identifier: LGPL-2.1-or-later
"""For tests whose machine's processors take turns: QEMU runs them in one thread, not in one each."""

import pytest

TURNS = pytest.mark.parametrize("guest", ["turns"], indirect=True)
