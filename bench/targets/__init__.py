# SPDX-License-Identifier: LGPL-2.1-or-later
"""The measured programs: hot.c calls one function as fast as it can; many.py makes a program of many functions."""
