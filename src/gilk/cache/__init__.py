# SPDX-License-Identifier: LGPL-2.1-or-later
"""Findings and compiled code, kept between runs: the place where they lie, the key of each, arrays and byte strings."""
