# SPDX-License-Identifier: LGPL-2.1-or-later
"""For tests whose machine's processors take turns: QEMU runs them in one thread, not in one each.

Otherwise one of its threads may translate code just while another changes it, and keep the old translation: an int3
that has gone is hit for ever. Kprobes and static keys that change all the time bring it about within minutes.
"""

import pytest

TURNS = pytest.mark.parametrize("guest", ["turns"], indirect=True)
