# SPDX-License-Identifier: LGPL-2.1-or-later
"""A fixture for tests on a machine whose processors take turns: QEMU runs them in one thread.

With a thread for each processor, one of QEMU's threads may translate code just while another changes it, and keep the
old translation: an int3 that has gone is then hit for ever. Kprobes and static keys that change all the time bring this
about within minutes.
"""

import pytest

TURNS = pytest.mark.parametrize("guest", ["turns"], indirect=True)
