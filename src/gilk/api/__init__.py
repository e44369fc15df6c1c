# SPDX-License-Identifier: LGPL-2.1-or-later
"""The public API: each module has what users, and the command line, need for one subject.

The package root offers the names of all of them (gilk/__init__.py).
"""
