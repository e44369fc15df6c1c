# SPDX-License-Identifier: LGPL-2.1-or-later
"""The programs that are measured: hot.c, one function called as fast as it can be; many.py, many functions."""
