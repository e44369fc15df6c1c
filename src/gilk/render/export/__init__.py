# SPDX-License-Identifier: LGPL-2.1-or-later
"""Traces in the formats of other programs: a format a module."""
