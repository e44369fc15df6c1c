# SPDX-License-Identifier: LGPL-2.1-or-later
"""``python -m gilk`` is ``gilk``."""

import sys

from gilk.cli.main import run

sys.exit(run())
