# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes ``python -m gilk`` run the command ``gilk``."""

import sys

from gilk.cli.main import run

sys.exit(run())
