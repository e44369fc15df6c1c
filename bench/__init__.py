# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure gilk beside its peers and the machine's limits, all in one run: `make bench`, or `python -m bench --help`."""
