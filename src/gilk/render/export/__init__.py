# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes traces in the formats of other programs; each format has a module."""
