# SPDX-License-Identifier: LGPL-2.1-or-later
"""Keeps findings and compiled code between runs: the cache's directory, keys, arrays, columns and byte strings."""
