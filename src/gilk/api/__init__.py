# SPDX-License-Identifier: LGPL-2.1-or-later
"""Each module has what users, and the command line, do with one thing.

The package root offers the names of all of them (gilk/__init__.py).
"""
