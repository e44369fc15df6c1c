# SPDX-License-Identifier: LGPL-2.1-or-later
"""The command line: one file per subcommand, listed in :mod:`gilk.cli.main`."""
