# SPDX-License-Identifier: LGPL-2.1-or-later
"""The version, in a module of its own so that `gilk --version` imports nothing else."""

VERSION = "0.1.0"
