# SPDX-License-Identifier: LGPL-2.1-or-later
"""What users of gilk import, and all that the command line does: a module for each thing that they do.

The package root offers the names of all of them (gilk/__init__.py).
"""
