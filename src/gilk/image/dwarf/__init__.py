# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads debug information (DWARF 2 to 5), as little of it as necessary: types, variables, parameters and inlined
functions by name, and source lines.
"""
